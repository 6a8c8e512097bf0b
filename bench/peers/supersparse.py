"""`SuperSparseClassifier` from disk under a memory budget."""

import time

from bench.job import memory, reset_peak


def prepare(**options):
    import streamlearn

    streamlearn.warm()
    reset_peak()
    return {"warm_peak_bytes": memory("VmHWM")}


def run(report, *, task, budget, n_prototypes, passes, threads, **options):
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    import streamlearn
    from bench import data

    train = streamlearn.open_dataset(task["train"], target=task["target"])
    model = streamlearn.SuperSparseClassifier(n_prototypes, n_passes=passes)
    start = time.perf_counter()
    with streamlearn.config_context(memory_budget=budget), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the passes are in the table
        model.fit(train)
    report["fit_s"] = time.perf_counter() - start
    report["n_passes"] = int(model.n_passes_)

    def score():
        y = data.labels(task, "test")
        test = streamlearn.open_dataset(task["test"], target=task["target"])
        return data.scores(y, model.classes_, model.predict_proba(test))

    return score
