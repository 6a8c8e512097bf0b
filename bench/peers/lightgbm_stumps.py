"""LightGBM with two leaves a tree: an additive model of steps, everything in memory."""

import time


def prepare(**options):
    import lightgbm  # noqa: F401


def run(report, *, task, threads, trees=1_000, **options):
    from lightgbm import LGBMClassifier

    from bench import data

    X, y = data.load(task, "train")
    model = LGBMClassifier(num_leaves=2, n_estimators=trees, n_jobs=threads, verbose=-1)
    start = time.perf_counter()
    model.fit(X, y)
    report["fit_s"] = time.perf_counter() - start

    def score():
        X_test, y_test = data.load(task, "test")
        return data.scores(y_test, model.classes_, model.predict_proba(X_test))

    return score
