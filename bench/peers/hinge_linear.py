"""LIBLINEAR's linear SVM on the same CSR pixels: seconds to within 1 % of its optimum."""

import time
import warnings


def prepare(**options):
    import sklearn.svm  # noqa: F401


def run(report, *, task, C=0.01, **options):
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    from bench.pixels import pixels

    X, y = pixels(task, 2)
    X = X.astype(np.float64) / 255  # what it would convert to itself
    sign = 2.0 * y - 1

    def fit(**limits):
        start, cpu = time.perf_counter(), time.process_time()
        model = LinearSVC(C=C, loss="hinge", random_state=0, **limits).fit(X, y)
        seconds = time.perf_counter() - start, time.process_time() - cpu
        w, b = model.coef_[0], model.intercept_[0]
        loss = np.maximum(0, 1 - sign * (X @ w + b)).sum()
        return seconds, 0.5 * (w @ w + b * b) + C * loss

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, best = fit(tol=1e-4, max_iter=3000)
        for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30):
            (seconds, cpu), value = fit(tol=1e-9, max_iter=n)
            if value <= 1.01 * best:
                break
    report |= {"fit_s": seconds, "cpu_s": cpu, "excess": value / best - 1, "epochs": n}
