"""Our features, written out: `SplineEmbedding` as CSR and LIBLINEAR, everything in memory.

The same optimum as ours on the fly; what is compared is memory and time.
"""

import time


def prepare(**options):
    import sklearn.linear_model
    import sklearn.svm  # noqa: F401

    import streamlearn

    streamlearn.warm()


def run(report, *, task, n_bases=20, degree=1, C=1.0, loss="log_loss", tol=1e-4, **options):
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    import streamlearn
    from bench import data

    X, y = data.load(task, "train")
    report["data_bytes"] = X.nbytes
    embedding = streamlearn.SplineEmbedding(n_bases=n_bases, degree=degree)
    linear = {
        "log_loss": LogisticRegression(C=C, tol=tol, solver="liblinear"),
        "squared_hinge": LinearSVC(C=C, tol=tol, dual=True, max_iter=10_000),
        "hinge": LinearSVC(C=C, loss="hinge", tol=tol, dual=True, max_iter=10_000),
    }[loss]
    if loss == "log_loss" and len(np.unique(y)) > 2:
        linear = OneVsRestClassifier(linear)
    start = time.perf_counter()
    features = embedding.fit_transform(X)
    report["embed_s"] = time.perf_counter() - start
    report["features_bytes"] = (
        features.data.nbytes + features.indices.nbytes + features.indptr.nbytes
    )
    linear.fit(features, y)
    report["fit_s"] = time.perf_counter() - start

    def score():
        X_test, y_test = data.load(task, "test")
        embedded = embedding.transform(X_test)
        if loss == "log_loss":
            return data.scores(y_test, linear.classes_, linear.predict_proba(embedded))
        return data.scores(y_test, linear.classes_, predicted=linear.predict(embedded))

    return score
