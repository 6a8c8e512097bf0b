"""LIBLINEAR's linear machine (hinge) on the raw columns scaled to [0, 1], everything in memory."""

import time


def prepare(**options):
    import sklearn.svm  # noqa: F401


def run(report, *, task, C, tol=1e-4, **options):
    from sklearn.svm import LinearSVC

    from bench import data

    X, y = data.load(task, "train")
    low, span = scale(X)
    X -= low
    X /= span
    model = LinearSVC(C=C, loss="hinge", tol=tol, max_iter=2_000)
    start = time.perf_counter()
    model.fit(X, y)
    report["fit_s"] = time.perf_counter() - start

    def score():
        X_test, y_test = data.load(task, "test")
        return data.scores(y_test, model.classes_, predicted=model.predict((X_test - low) / span))

    return score


def scale(X):
    """Least value and range of each column; 1 for a constant one."""
    low = X.min(axis=0)
    span = X.max(axis=0) - low
    span[span == 0] = 1
    return low, span
