"""`ShareBoostClassifier` from a store on disk, under a memory budget; errors along its path."""

import time

from bench.job import memory, reset_peak


def prepare(**options):
    import streamlearn

    start = time.perf_counter()
    streamlearn.warm("shareboost")
    report = {"warm_s": time.perf_counter() - start, "warm_peak_bytes": memory("VmHWM")}
    reset_peak()
    return report


def run(report, *, train, test, budget, threads, chunk_rows, sizes, checkpoint=None, **parameters):
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    import streamlearn
    from bench.peers.ours import time_reads

    reads = time_reads()
    data = streamlearn.open_dataset(train, target="y", chunk_rows=chunk_rows)
    model = streamlearn.ShareBoostClassifier(**parameters)
    start = time.perf_counter()
    with streamlearn.config_context(memory_budget=budget), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data, checkpoint=checkpoint)
    report["fit_s"] = time.perf_counter() - start
    scoring = [r["s"] for r in reads if r["name"].startswith("score")]
    report |= {
        "score_read_s": scoring[0],  # of all columns, as later ones may not be
        "n_score_reads": len(scoring),
        "read_s": {
            kind: sum(r["s"] for r in reads if r["name"].startswith(kind))
            for kind in ("summary", "score", "fetch", "residual", "correct")
        },
        "full_reads": float(model.history_[-1]["full_reads"]),
        "summary_reads": sum(r["name"].startswith("summary") for r in reads),
        "n_passes": int(model.n_passes_),
        "converged": bool(model.certificate_.converged),
    }
    peak = memory("VmHWM")

    def score():
        with streamlearn.config_context(memory_budget=budget):
            plain = read_alone(data, budget)
            report["read_alone_s"] = plain
            rows = []
            held_out = streamlearn.open_dataset(test, target="y")
            for n in sizes:
                at = model.at(n)
                rows.append(
                    {
                        "n": len(at.choices_),
                        "error": 1 - at.score(held_out),
                        "objective": float(at.certificate_.objective),
                    }
                )
        return {"path": rows, "peak_bytes": peak}

    return score


def read_alone(data, budget):
    """Seconds of the same read with nothing computed: decoding, on the same lanes."""
    from streamlearn.engine.plan import Needs, make_plan
    from streamlearn.engine.run import Run
    from streamlearn.passes.fold import Fold

    with Run(data, make_plan(data, [Needs("read", 8)]), name="read", identity={}) as reading:
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            reading.fold(Fold(int, count, add), name="read")
            seconds.append(time.perf_counter() - start)
    return min(seconds)


def count(state, chunk):
    return state + chunk.n_rows


def add(a, b):
    return a + b
