"""scikit-learn's splines of a cell of the shapes, written out: first fit, and the best of more."""

import time


def prepare(**options):
    import sklearn.linear_model
    import sklearn.pipeline
    import sklearn.preprocessing
    import sklearn.svm  # noqa: F401


def run(report, *, task, threads, **options):
    import warnings

    import numpy as np
    import scipy.sparse
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer
    from sklearn.svm import LinearSVC

    from bench.shapes import load

    (X, y), (X_test, y_test) = load(task)
    C = task["model"].get("C", 1.0)
    linear = LinearSVC(C=C, loss="hinge") if task["loss"] == "hinge" else LogisticRegression(C=C)
    splines = SplineTransformer(n_knots=task["n_bases"], degree=1, sparse_output=True)
    # 0 and 1 need no splines
    model = linear if scipy.sparse.issparse(X) else make_pipeline(splines, linear)
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(task["repeat"]):
            start = time.perf_counter()
            model.fit(X, y)
            seconds.append(time.perf_counter() - start)
    report |= {"fit_s": seconds[0], "best_s": min(seconds)}
    return lambda: {"accuracy": float(np.mean(model.predict(X_test) == y_test))}
