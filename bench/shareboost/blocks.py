"""The second example of the paper's appendix C: columns taken, beside the convex mixed norm.

Each of s blocks of a row holds the class in binary, -1 and 1; a share of the rows lacks a block,
which is 0.  The columns of one block tell all classes; the paper expects the mixed norm to take
those of all blocks.
"""

import numpy as np

from .fits import boost, error_path, least_n

BITS, ROWS, LACKING = 4, 4_000, 0.1
"""Of a block; rows of the training and of the test set; share of them that lack a block."""
GOAL = LACKING / 2
"""Test error: without a whole block half of the rows are wrong at least."""
BLOCKS = (2, 4, 8, 16)


def blocks(task):
    rows = []
    for s in BLOCKS[:2] if task.tiny else BLOCKS:
        n = ROWS // 10 if task.tiny else ROWS
        (X, y), (Xt, yt) = (drawn(np.random.default_rng([s, part]), n, s) for part in (0, 1))
        model = boost(min(4 * BITS, s * BITS), ridge=1e-4, columns_per_pass=1).fit(X, y)
        row = {
            "blocks": s,
            "columns": s * BITS,
            f"columns for {GOAL:.0%} error": least_n(error_path(model, Xt, yt), GOAL),
            "a block's": BITS,
        }
        if task.rivals:
            row[f"mixed norm's for {GOAL:.0%}"] = mixed(X, y, Xt, yt)
        rows.append(row)
    return rows


def drawn(rng, n, s):
    """Rows (n, s `BITS`) and their classes."""
    y = rng.integers(0, 1 << BITS, n)
    block = 2.0 * (y[:, None] >> np.arange(BITS) & 1) - 1
    X = np.tile(block, s).reshape(n, s, BITS)
    lacking = np.flatnonzero(rng.random(n) < LACKING)
    X[lacking, rng.integers(0, s, len(lacking))] = 0
    return X.reshape(n, -1), y


def mixed(X, y, Xt, yt):
    """Fewest columns of the mixed norm's path with the goal's error; None if there are none."""
    from bench.peers.mixed_norm import path_of

    ones, p = np.ones((len(X), 1)), X.shape[1]
    path = path_of(
        np.hstack([ones, X]), y, np.hstack([ones, Xt]), yt,
        pairs=(np.zeros(p, int), np.arange(1, p + 1)), iterations=400,
    )  # fmt: skip
    return min((n for n, error in path.items() if error <= GOAL), default=None)
