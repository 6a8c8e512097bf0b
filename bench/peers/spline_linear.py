"""scikit-learn's way: `SplineTransformer` and a linear model, everything in memory.

`n_bases` splines a column on scikit-learn's default (uniform) knots; two-valued columns pass
through.  `sparse=False` is scikit-learn's default, dense float32; `sparse=True` is the kinder one.
"""

import time


def prepare(**options):
    import sklearn.compose
    import sklearn.linear_model
    import sklearn.pipeline
    import sklearn.preprocessing  # noqa: F401


def run(
    report, *, task, n_bases=20, degree=1, C=1.0, loss="log_loss", tol=1e-4, sparse=False, **options
):
    import numpy as np
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer
    from sklearn.svm import LinearSVC

    from bench import data

    X, y = data.load(task, "train")
    report["data_bytes"] = X.nbytes
    smooth = np.array([len(np.unique(X[:, j])) > 2 for j in range(X.shape[1])])
    splines = SplineTransformer(n_knots=n_bases + 1 - degree, degree=degree, sparse_output=sparse)
    linear = {
        "log_loss": LogisticRegression(C=C, tol=tol, max_iter=1000),
        "squared_hinge": LinearSVC(C=C, tol=tol, dual=True, max_iter=10_000),
        "hinge": LinearSVC(C=C, loss="hinge", tol=tol, dual=True, max_iter=10_000),
    }[loss]
    if loss == "log_loss" and len(np.unique(y)) > 2:
        linear = OneVsRestClassifier(linear)
    model = make_pipeline(
        make_column_transformer(
            (splines, np.flatnonzero(smooth)),
            remainder="passthrough",
            sparse_threshold=1.0 if sparse else 0.0,
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
