"""InterpretML's explainable boosting machine without interactions, everything in memory."""

import time


def prepare(**options):
    from interpret.glassbox import ExplainableBoostingClassifier  # noqa: F401


def run(report, *, task, threads, seed=0, **options):
    from interpret.glassbox import ExplainableBoostingClassifier

    from bench import data

    X, y = data.load(task, "train")
    model = ExplainableBoostingClassifier(interactions=0, n_jobs=threads, random_state=seed)
    start = time.perf_counter()
    model.fit(X, y)
    report["fit_s"] = time.perf_counter() - start

    def score():
        X_test, y_test = data.load(task, "test")
        return data.scores(y_test, model.classes_, model.predict_proba(X_test))

    return score
