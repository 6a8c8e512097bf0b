"""scikit-learn's way: `SplineTransformer` (sparse) and a linear model, everything in memory.

Columns with few distinct values (at most `n_bases`) go to the linear model as indicators of their
values, as ours do; the others get `n_bases` splines on quantile knots.
"""

import time


def prepare(**options):
    import sklearn.compose
    import sklearn.linear_model
    import sklearn.pipeline
    import sklearn.preprocessing  # noqa: F401


def run(report, *, task, n_bases=20, degree=1, C=1.0, loss="log_loss", tol=1e-4, **options):
    import numpy as np
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, SplineTransformer
    from sklearn.svm import LinearSVC

    from bench import data

    X, y = data.load(task, "train")
    report["data_bytes"] = X.nbytes
    few = np.array([len(np.unique(X[:, j])) <= n_bases for j in range(X.shape[1])])
    splines = SplineTransformer(
        n_knots=n_bases + 1 - degree, degree=degree, knots="quantile", sparse_output=True
    )
    linear = {
        "log_loss": LogisticRegression(C=C, tol=tol, max_iter=1000),
        "squared_hinge": LinearSVC(C=C, tol=tol, dual=True, max_iter=10_000),
        "hinge": LinearSVC(C=C, loss="hinge", tol=tol, dual=True, max_iter=10_000),
    }[loss]
    if loss == "log_loss" and len(np.unique(y)) > 2:
        linear = OneVsRestClassifier(linear)
    model = make_pipeline(
        make_column_transformer(
            (splines, np.flatnonzero(~few)),
            (OneHotEncoder(drop="first", handle_unknown="ignore"), np.flatnonzero(few)),
            sparse_threshold=1.0,
        ),
        linear,
    )
    start = time.perf_counter()
    model.fit(X, y)
    report["fit_s"] = time.perf_counter() - start

    def score():
        X_test, y_test = data.load(task, "test")
        if loss == "log_loss":
            return data.scores(y_test, model.classes_, model.predict_proba(X_test))
        return data.scores(y_test, model.classes_, predicted=model.predict(X_test))

    return score
