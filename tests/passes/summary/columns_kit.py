"""Columns that break summaries, as plain arrays."""

import numpy as np


def hard_columns(n=5000, dtype=np.float32, seed=0):
    """name -> (n,) column: ties, zeros, outliers, denormals, far from 0, negative, few values."""
    rng = np.random.default_rng(seed)
    u, z = rng.random(n), rng.standard_normal(n)
    some = rng.random(n)
    columns = {
        "uniform": u,
        "normal": z,
        "negative": -np.exp(3 * z),
        "mostly-zero": np.where(some < 0.95, 0.0, u - 0.5),
        "tied": np.where(some < 0.7, 0.7, z),
        "outliers": np.where(some < 0.01, 1e30 * z, z),
        "denormal": u * 1e-39 - 2e-40,
        "huge-and-tiny": 10.0 ** rng.uniform(-37, 37, n) * np.sign(z),
        "offset": 1e6 + z,
        "many-integers": rng.integers(-1000, 1000, n),
        "constant": np.full(n, 3.5),
        "binary": some < 0.1,
        "signed-zero": np.where(some < 0.5, -0.0, 0.0),
        "256-values": np.arange(n) % 256 - 17.0,
        "257-values": np.arange(n) % 257 - 17.0,
        "longitude": -124 + 10 * u,
        "kelvin": np.where(some < 0.1, 0.0, 285 + 9 * z),
        "year": np.where(some < 0.01, -1.0, 1900 + np.floor(700 * u)),
        "seconds": 1.7e9 + 86400 * u,
    }
    return {name: column.astype(dtype) for name, column in columns.items()}
