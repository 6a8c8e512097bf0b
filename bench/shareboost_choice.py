"""How the features and the ridge of the digits were chosen: by training images held out."""

import numpy as np

from . import patches
from .shareboost_digits import FEATURES, images
from .shareboost_fits import boost

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
"""Tried with `shareboost_digits.FEATURES`."""
ROWS, TEMPLATES, COLUMNS = 8_000, 50, 100
"""Fewer than the headline's, for a choice in minutes."""


def choose_look(task):
    from .shareboost_tables import RIDGE, TOL

    X, y = images(task.shared, "train", task.tiny)
    order = np.random.default_rng(5).permutation(len(y))[: task.n_rows or ROWS]
    X, y = X[order], y[order]
    n_templates, n = (20, 10) if task.tiny else (TEMPLATES, COLUMNS)
    cut = len(y) * 5 // 6
    rows = []
    for look, how in LOOKS.items():
        V = patches.responses(patches.learn(X[:cut], n_templates, **how), X)
        for ridge in RIDGES if how == FEATURES else (RIDGE,):
            model = boost(n, ridge=ridge, tol=TOL)
            model.fit(V[:cut], y[:cut], validation=(V[cut:], y[cut:]))
            path = model.path_
            for size in (25, n):
                at = int(np.flatnonzero(path["n"] <= size)[-1])
                rows.append(
                    {
                        "features": look,
                        "ridge": ridge,
                        "columns": int(path["n"][at]),
                        "held-out error, %": 100 * path["validation_error"][at],
                        "held-out loss": path["validation_loss"][at],
                    }
                )
    return rows
