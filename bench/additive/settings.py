"""What the tables and the choice of their columns have in common: models, C, knots, digits."""

import numpy as np

from bench import data

BUDGET = "1GiB"
TINY_ROWS = 300
SPLINES_5 = {
    "D0, linear, n=20": (dict(penalty_order=0, n_bases=20), 0.88),
    "D0, cubic, n=20": (dict(penalty_order=0, n_bases=20, degree=3), 0.86),
    "D1, linear, n=40": (dict(penalty_order=1, n_bases=40), 0.81),
    "D1, cubic, n=40": (dict(penalty_order=1, n_bases=40, degree=3), 0.82),
}
C = {"phog": 0.03, "pixels": 0.1, "covtype": 1.0}
"""Of the additive hinge machines, by the data."""
KNOTS = {"phog": "quantile", "pixels": "uniform", "covtype": "quantile"}
SWEEPS = dict(tol=1e-2, max_passes=60)


def mnist_rows(folder, tiny):
    """{"train": (images (n, 784) uint8, digits), "test": ...}; noise where the bench is tiny."""
    if tiny:
        rng = np.random.default_rng(0)
        y = rng.integers(0, 10, 2 * TINY_ROWS).astype(np.int8)
        strokes = rng.integers(0, 255, (10, 784))
        X = (strokes[y] * rng.random((len(y), 784))).astype(np.uint8)
        return {"train": (X[:TINY_ROWS], y[:TINY_ROWS]), "test": (X[TINY_ROWS:], y[TINY_ROWS:])}
    parts = {}
    for part in ("train", "test"):
        _, X, y = data.read_table(data.shared_folder() / "mnist" / f"{part}.parquet")
        parts[part] = np.stack(X, axis=1).astype(np.uint8), y.astype(np.int8)
    return parts
