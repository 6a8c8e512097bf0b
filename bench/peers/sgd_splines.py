"""`SplineTransformer` and `SGDClassifier` (log-loss, averaged), in batches: what scikit-learn
offers where features do not fit in memory; two passes over the rows.
"""

import time

BATCH, PASSES = 20_000, 2


def prepare(**options):
    import sklearn.linear_model
    import sklearn.preprocessing  # noqa: F401


def run(report, *, task, n_bases=20, degree=1, **options):
    import numpy as np
    from sklearn.linear_model import SGDClassifier
    from sklearn.preprocessing import SplineTransformer

    from bench import data

    X, y = data.load(task, "train")
    splines = SplineTransformer(n_knots=n_bases + 1 - degree, degree=degree, sparse_output=True)
    model = SGDClassifier(loss="log_loss", alpha=1 / len(y), average=True, random_state=0)
    start = time.perf_counter()
    splines.fit(X)
    order = np.random.default_rng(0).permutation(-(-len(y) // BATCH))
    for _ in range(PASSES):
        for batch in order:
            part = slice(batch * BATCH, (batch + 1) * BATCH)
            model.partial_fit(splines.transform(X[part]), y[part], classes=np.unique(y))
    report["fit_s"] = time.perf_counter() - start

    def score():
        X_test, y_test = data.load(task, "test")
        return data.scores(y_test, model.classes_, model.predict_proba(splines.transform(X_test)))

    return score
