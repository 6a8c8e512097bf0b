"""Seconds of `import streamlearn`, `warm()`, a first small fit and the demo, in a fresh process."""

import tempfile
import time


def prepare(**options):
    return {}


def run(report, *, what="import", rows=None, **options):
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
    elif what == "demo":
        from streamlearn.demo import run_demo

        said = []
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as plots:
            run_demo(rows, None, plots, "64MiB", said.append)
        report["demo_s"] = time.perf_counter() - start
        lines = [line.strip() for line in "\n".join(said).splitlines() if line.strip()]
        lines = lines[lines.index("Memory") + 1 :]
        last = next(i for i, line in enumerate(lines) if "relative gap" in line)
        report["said"] = lines[: last + 1]
