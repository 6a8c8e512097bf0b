"""The two toys of Fu 2010: a circle in the square, and two spirals."""

import numpy as np


def circle(n=2_000, seed=0):
    """X uniform on [-1, 1]^2, y: inside the circle that holds half of the square."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return X, ((X**2).sum(axis=1) < 2 / np.pi).astype(np.int8)


def spirals(n=2_000, turns=1.75, noise=0.02, seed=0):
    """Two spirals from the middle outwards, one turned half a turn from the other."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    t = np.sqrt(rng.random(n)) * 2 * np.pi * turns
    r, angle = t / (2 * np.pi * turns), t + np.pi * y
    X = np.column_stack([r * np.cos(angle), r * np.sin(angle)])
    return X + noise * rng.standard_normal((n, 2)), y.astype(np.int8)
