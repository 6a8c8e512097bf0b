"""How the digits' features, ridges and copies were chosen: by training images held out."""

import numpy as np

from . import patches
from .digits import FEATURES, SMOOTH, STRENGTH, deform, images
from .fits import boost

LOOKS = {
    "grey": {},
    "upright": {"upright": True},
    "upright, damped": {"upright": True, "damp": 1.0},
    "upright, damped, masks 4 wide": {"upright": True, "damp": 1.0, "spread": 4.0},
    "upright, damped, masks 5.5 wide": {"upright": True, "damp": 1.0, "spread": 5.5},
    "upright, damped, masks 8 wide": {"upright": True, "damp": 1.0, "spread": 8.0},
    "upright edges": {"upright": True, "channels": 4, "damp": 0.1},
}
RIDGES = (1e-6, 3e-6, 1e-5, 3e-5)
"""Tried with `digits.FEATURES`."""
COPIES = {"none": None, "weak": (8.0, 4.0), "in use": (STRENGTH, SMOOTH)}
"""Strength and smoothing of two deformed copies of each image."""
ROWS, TEMPLATES, COLUMNS = 8_000, 50, 100
"""Fewer than the headline's, for a choice in minutes."""


def choose_look(task):
    from .tables import RIDGE

    X, y, cut = some_images(task)
    rows = []
    for look, how in LOOKS.items():
        V = patches.responses(patches.learn(X[:cut], n_templates(task), **how), X)
        for ridge in RIDGES if how == FEATURES else (RIDGE,):
            found = held_out(task, V[:cut], y[:cut], V[cut:], y[cut:], ridge)
            rows += [{"features": look, "ridge": ridge, **row} for row in found]
    return rows


def choose_copies(task):
    from .tables import RIDGE, RIDGE_EXPANDED

    X, y, cut = some_images(task)
    learned = patches.learn(X[:cut], n_templates(task), **FEATURES)
    V = patches.responses(learned, X)
    rows = []
    for name, how in COPIES.items():
        parts = [V[:cut]]
        for copy in (1, 2) if how else ():
            moved = deform(X[:cut], np.random.default_rng(copy), *how)
            parts.append(patches.responses(learned, moved))
        A = np.concatenate(parts)
        for ridge in (RIDGE, RIDGE_EXPANDED):
            found = held_out(task, A, np.tile(y[:cut], len(parts)), V[cut:], y[cut:], ridge)
            rows += [{"copies": name, "ridge": ridge, **row} for row in found]
    return rows


def some_images(task):
    """Images, labels, and how many of them are for training."""
    X, y = images(task.shared, "train", task.tiny)
    order = np.random.default_rng(5).permutation(len(y))[: task.n_rows or ROWS]
    return X[order], y[order], len(order) * 5 // 6


def n_templates(task):
    return 20 if task.tiny else TEMPLATES


def held_out(task, V, y, H, yh, ridge):
    """Error and loss of held-out rows with a quarter of the columns and with all."""
    from .tables import TOL

    n = 10 if task.tiny else COLUMNS
    path = boost(n, ridge=ridge, tol=TOL).fit(V, y, validation=(H, yh)).path_
    rows = []
    for size in (n // 4, n):
        at = int(np.flatnonzero(path["n"] <= size)[-1])
        rows.append(
            {
                "columns": int(path["n"][at]),
                "held-out error, %": 100 * path["validation_error"][at],
                "held-out loss": path["validation_loss"][at],
            }
        )
    return rows
