"""`ShareBoostClassifier` from a store on disk, under a memory budget; errors along its path."""

import time

from bench.job import memory, reset_peak

TURNS = 3
"""Single reads of a few seconds differ by half."""


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
    model = streamlearn.ShareBoostClassifier(**({"ridge": 0.0} | parameters))  # as the paper's
    start = time.perf_counter()
    with streamlearn.config_context(memory_budget=budget), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data, checkpoint=checkpoint)
    report["fit_s"] = time.perf_counter() - start
    scoring = [r["s"] for r in reads if r["name"].startswith("score")]
    report |= {
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
            report.update(read_costs(data, len(model.classes_)))
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


def read_costs(data, n_classes, turns=TURNS):
    """Seconds, of the clock and of the processor, of a scoring read of all columns and of one with
    nothing computed: by turns, the best of so many each, on the same lanes."""
    import numpy as np

    from streamlearn.engine.plan import Needs
    from streamlearn.engine.planning import make_plan
    from streamlearn.engine.run import Run
    from streamlearn.passes.fold import Fold
    from streamlearn.shareboost.reads import start_fold
    from streamlearn.shareboost.selection.scoring import gradient_fold, residual_state

    width = data.n_features
    state = residual_state(data.dtype.name, n_classes)
    folds = {
        "read_alone": Fold(int, count, add),
        "score_read": gradient_fold(width, n_classes, state),
    }
    best = {f"{key}_{unit}": np.inf for key in folds for unit in ("s", "cpu_s")}
    row_bytes = 16 + n_classes * data.dtype.itemsize
    needs = Needs("score", 8 * n_classes * width, row_state_bytes=row_bytes)
    with Run(data, make_plan(data, [needs]), name="score", identity={}) as reading:
        start = start_fold(np.eye(n_classes) - 1 / n_classes, float(data.n_rows), data.dtype.name)
        reading.fold(start, name="start")
        for _ in range(turns):
            for key, fold in folds.items():
                began = time.perf_counter(), time.process_time()
                reading.fold(fold, name=key)
                taken = time.perf_counter() - began[0], time.process_time() - began[1]
                for unit, seconds in zip(("s", "cpu_s"), taken, strict=True):
                    best[f"{key}_{unit}"] = min(best[f"{key}_{unit}"], seconds)
    return best


def count(state, chunk):
    return state + chunk.n_rows


def add(a, b):
    return a + b
