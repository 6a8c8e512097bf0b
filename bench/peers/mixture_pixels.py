"""A mixture from disk under a memory budget: trained, its answers written to disk, scored."""

import time
import warnings

from bench.job import reset_peak


def prepare(**options):
    import streamlearn

    streamlearn.warm("mixture")
    reset_peak()


def run(report, *, path, answers, budget, threads):
    from sklearn.exceptions import ConvergenceWarning

    import streamlearn

    rows = streamlearn.open_dataset(path, target="y")
    model = streamlearn.SVMMixtureClassifier(
        gate="linear", expert_loss="log_loss", tol=1e-4, max_passes=12
    )
    with streamlearn.config_context(memory_budget=budget), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the reads are in the table
        start = time.perf_counter(), time.process_time()
        model.fit(rows)
        fitted = time.perf_counter()
        report |= {"fit_s": fitted - start[0], "fit_cpu_s": time.process_time() - start[1]}
        model.predict_to(rows, answers)
        report["predict_s"] = time.perf_counter() - fitted
        report["right"] = 100 * model.score(rows)
    report |= {
        "n_components": int(model.n_components_),
        "iterations": len(model.history_),
        "n_passes": int(model.n_passes_),
        "plan_bytes": int(model.plan_.peak_bytes),
    }
