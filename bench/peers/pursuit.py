"""A projection pursuit fit from disk under a memory budget, and decoding alone of the same rows.

The ratio is of the middle read of a search (which has measured trials, tables, earlier terms and
learners) to the fastest of three that only decode; of seconds, and of the processor's.
"""

import time

from bench.job import reset_peak


def prepare(**options):
    import streamlearn

    streamlearn.warm()
    reset_peak()


def run(report, *, task, budget, estimator, threads):
    import streamlearn
    from bench.peers.ours import time_reads
    from streamlearn.passes.fold import Fold

    parameters = {
        "ProjectionPursuitRegressor": {"n_terms": 2, "backfit": 0},
        "JensenShannonBoostClassifier": {"n_learners": 3},
    }[estimator]
    model = getattr(streamlearn, estimator)(**parameters)
    reads = time_reads()
    with streamlearn.config_context(memory_budget=budget):
        dataset = streamlearn.open_dataset(task["train"], target=task["target"])
        start = time.perf_counter()
        model.fit(dataset)
        report["fit_s"] = time.perf_counter() - start
        from streamlearn.engine.run import Run

        with Run(dataset, model.plan_, name="decode", identity={}) as decoding:
            for number in range(3):
                decoding.fold(Fold(int, count, add), name=f"decode-{number}")
    report |= {"n_passes": int(model.n_passes_), "reads": reads}
    for name, unit in (("read_ratio", "s"), ("read_cpu_ratio", "cpu_s")):
        searches = sorted(r[unit] for r in reads if r["name"].startswith(("search", "boost")))
        decode = min(r[unit] for r in reads if r["name"].startswith("decode"))
        report[name] = searches[len(searches) // 2] / decode

    def score():
        test = streamlearn.open_dataset(task["test"], target=task["target"])
        return {"error_rate": 1 - model.score(test)}

    return score


def count(n, chunk):
    return n + chunk.n_rows


def add(a, b):
    return a + b
