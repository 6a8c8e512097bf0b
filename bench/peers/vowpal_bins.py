"""Vowpal Wabbit: logistic loss on one indicator for each column's quantile bin, one pass.

It has no smooth terms; bins are what its users write.  Examples go in as text through Python, and
the time of making the text is counted apart.
"""

import time


def prepare(**options):
    import vowpalwabbit  # noqa: F401


def run(report, *, task, n_bases=20, rows=200_000, **options):
    import numpy as np
    from vowpalwabbit import Workspace

    from bench import data

    X, y = data.load(task, "train")
    X, y = X[:rows], y[:rows]
    shares = np.linspace(0, 1, n_bases + 1)[1:-1]
    edges = [np.unique(np.quantile(x, shares)) for x in X.T]

    def lines(X):
        bins = np.column_stack([np.searchsorted(e, x) for e, x in zip(edges, X.T, strict=True)])
        bins += n_bases * np.arange(bins.shape[1])
        return [" ".join(map(str, row)) for row in bins]

    start = time.perf_counter()
    text = lines(X)
    report["text_s"] = time.perf_counter() - start
    start = time.perf_counter()
    model = Workspace("--loss_function logistic --link logistic --quiet -b 18 --random_seed 1")
    for label, line in zip(np.where(y > 0, "1", "-1").tolist(), text, strict=True):
        model.learn(f"{label} | {line}")
    report["fit_s"] = time.perf_counter() - start
    report["rows"] = len(y)

    def score():
        from .frames import scores

        X_test, y_test = data.load(task, "test")
        return scores(y_test, [model.predict(f"| {line}") for line in lines(X_test)])

    return score
