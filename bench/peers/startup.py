"""Seconds of `import streamlearn`, `warm()` and a first small fit, in this fresh process."""

import time


def prepare(**options):
    return {}


def run(report, *, what="import", **options):
    start = time.perf_counter()
    import streamlearn

    report["import_s"] = time.perf_counter() - start
    if what == "warm":
        start = time.perf_counter()
        streamlearn.warm()
        report["warm_s"] = time.perf_counter() - start
    elif what == "fit":
        import numpy as np

        rng = np.random.default_rng(0)
        X = rng.random((1000, 5))
        y = X[:, 0] + rng.normal(0, 0.2, 1000) > 0.5
        start = time.perf_counter()
        streamlearn.AdditiveClassifier().fit(X, y)
        report["fit_s"] = time.perf_counter() - start
