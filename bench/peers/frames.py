"""What several rivals share: some rows of a task as named columns, and their scores."""

import numpy as np

from bench import data


def columns(task, part, rows=None):
    """({"x0": float64 column, ...}, y) of a part, of `rows` rows drawn by a fixed seed."""
    X, y = data.load(task, part)
    if rows is not None and rows < len(y):
        chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:rows])
        X, y = X[chosen], y[chosen]
    varied = [j for j in range(X.shape[1]) if len(np.unique(X[:, j])) > 2]
    plain = [j for j in range(X.shape[1]) if j not in varied and np.ptp(X[:, j]) > 0]
    table = {f"x{j}": X[:, j].astype(np.float64) for j in [*varied, *plain]}
    return table, y, {f"x{j}" for j in varied}


def scores(y, p):
    """Of probabilities of class 1."""
    p = np.clip(np.asarray(p, np.float64), 0, 1)
    return data.scores(y, [0, 1], np.column_stack([1 - p, p]))
