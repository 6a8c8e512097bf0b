"""The same splines written out, then LIBLINEAR's linear SVM to its default tolerance: seconds."""

import time
import warnings


def prepare(**options):
    import sklearn.preprocessing
    import sklearn.svm  # noqa: F401


def run(report, *, task, n_bases=10, C=0.01, **options):
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import SplineTransformer
    from sklearn.svm import LinearSVC

    from bench.pixels import pixels

    X, y = pixels(task, 2)
    start = time.perf_counter()
    splines = SplineTransformer(n_knots=n_bases, degree=1, sparse_output=True)
    Z = splines.fit_transform(X.toarray().astype(np.float64))
    report["expand_s"] = time.perf_counter() - start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC(C=C, loss="hinge", random_state=0).fit(Z, y)
    report |= {"fit_s": time.perf_counter() - start, "epochs": int(model.n_iter_)}
