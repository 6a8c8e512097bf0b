"""Our fits of a cell of the shapes: the first one of the process, and the best of more."""

import time


def prepare(*, task, **options):
    import streamlearn

    if not task["tiny"]:
        streamlearn.warm()


def run(report, *, task, threads, **options):
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning

    import streamlearn
    from bench.peers.ours import AS_RIVALS, time_reads
    from bench.shapes import load

    (X, y), (X_test, y_test) = load(task)
    own = {**AS_RIVALS, "n_bases": task["n_bases"], **task["model"]}
    model = streamlearn.AdditiveClassifier(task["loss"], **own | {"solver": task["solver"]})
    reads, seconds = time_reads(), []
    stored = task.get("train")
    config = {"memory_budget": "256MiB"} if stored else {}
    with streamlearn.config_context(**config), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap is in the table
        for _ in range(task["repeat"]):
            start = time.perf_counter()
            if stored:
                model.fit(streamlearn.open_dataset(stored, target="target"))
            else:
                model.fit(X, y)
            seconds.append(time.perf_counter() - start)
            if len(seconds) == 1:
                in_reads = sum(read["s"] for read in reads if not read["inside"])
    certificate = model.certificate_
    report |= {
        "fit_s": seconds[0],
        "best_s": min(seconds),
        "reads_s": in_reads,
        "outside_s": seconds[0] - in_reads,
        "relative_gap": float(certificate.relative_gap),
        "n_passes": int(certificate.n_passes),
        "solver": certificate.solver,
        "converged": certificate.converged,
    }
    return lambda: {"accuracy": float(np.mean(model.predict(X_test) == y_test))}
