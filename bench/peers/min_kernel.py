"""The exact histogram-intersection kernel, K(x, y) = sum_d min(x_d, y_d), on a subset of the rows.

One against the rest, as the paper's; columns scaled to [0, 1].
"""

import time

from .linear_svc import scale

BLOCK = 64


def prepare(**options):
    import sklearn.multiclass
    import sklearn.svm  # noqa: F401


def run(report, *, task, rows, C=1.0, **options):
    import numpy as np
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC

    from bench import data

    X, y = data.load(task, "train")
    chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:rows])
    X, y = X[chosen], y[chosen]
    low, span = scale(X)
    X = (X - low) / span
    machine = SVC(kernel="precomputed", C=C)
    model = machine if len(np.unique(y)) == 2 else OneVsRestClassifier(machine)
    start = time.perf_counter()
    K = intersection(X, X)
    factor = 1 / K.diagonal().mean()  # so that C means the same for any number of columns
    model.fit(K * factor, y)
    report["fit_s"] = time.perf_counter() - start
    report["features_ratio"] = K.nbytes / X.nbytes

    def score():
        X_test, y_test = data.load(task, "test")
        K = intersection(np.clip((X_test - low) / span, 0, 1), X) * factor
        return data.scores(y_test, model.classes_, predicted=model.predict(K))

    return score


def intersection(A, B):
    """(len(A), len(B)) float32 sums of least values, a block of columns at a time."""
    import numba
    import numpy as np

    @numba.njit
    def add(A, B, K):
        for i in range(len(A)):
            for j in range(len(B)):
                total = np.float32(0)
                for d in range(A.shape[1]):
                    total += min(A[i, d], B[j, d])
                K[i, j] += total

    K = np.zeros((len(A), len(B)), np.float32)
    for d in range(0, A.shape[1], BLOCK):
        add(
            np.ascontiguousarray(A[:, d : d + BLOCK], np.float32),
            np.ascontiguousarray(B[:, d : d + BLOCK], np.float32),
            K,
        )
    return K
