"""Vedaldi & Zisserman's explicit chi^2 features (three a column) and LIBLINEAR, in memory."""

import time

from .linear_svc import scale


def prepare(**options):
    import sklearn.kernel_approximation
    import sklearn.svm  # noqa: F401


def run(report, *, task, C, tol=1e-4, **options):
    import numpy as np
    from sklearn.kernel_approximation import AdditiveChi2Sampler
    from sklearn.svm import LinearSVC

    from bench import data

    X, y = data.load(task, "train")
    low, span = scale(X)
    sampler = AdditiveChi2Sampler(sample_steps=2)
    model = LinearSVC(C=C, loss="hinge", tol=tol, max_iter=2_000)

    def features(X):
        unit = np.clip((X - low) / span, 0, 1)
        return sampler.fit_transform(unit).astype(np.float32)

    start = time.perf_counter()
    Z = features(X)
    report["embed_s"] = time.perf_counter() - start
    report["features_ratio"] = Z.nbytes / X.nbytes
    model.fit(Z, y)
    report["fit_s"] = time.perf_counter() - start

    def score():
        X_test, y_test = data.load(task, "test")
        return data.scores(y_test, model.classes_, predicted=model.predict(features(X_test)))

    return score
