"""A projection pursuit fit from disk under a memory budget, and decoding alone of the same rows."""

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
            decoding.fold(Fold(int, count, add), name="decode")
    searches = [r["s"] for r in reads if r["name"].startswith(("search", "boost"))]
    (decode,) = [r["s"] for r in reads if r["name"] == "decode"]
    report |= {
        "n_passes": int(model.n_passes_),
        "reads": reads,
        "read_ratio": sum(searches) / len(searches) / decode,
    }

    def score():
        test = streamlearn.open_dataset(task["test"], target=task["target"])
        return {"error_rate": 1 - model.score(test)}

    return score


def count(n, chunk):
    return n + chunk.n_rows


def add(a, b):
    return a + b
