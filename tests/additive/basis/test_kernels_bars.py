"""Bars of distributions in pieces, against every piece's overlap with every bar."""

import numpy as np
import pytest

from streamlearn.additive.basis.kernels_bars import bars_of_columns
from streamlearn.numeric.bases.means import Pieces

N_BARS = 6


def overlaps(lo, hi, share, edges):
    """(m,) shares of one column's pieces: by overlap, or in the bar that a value falls in."""
    bars = np.zeros(N_BARS)
    for a, z, part in zip(lo, hi, share, strict=True):
        if a < z:
            inside = np.minimum(z, edges[1:]) - np.maximum(a, edges[:-1])
            bars += part * np.maximum(inside, 0.0) / (z - a)
        elif edges[0] <= a <= edges[-1]:
            bars[min(np.searchsorted(edges, a, "right") - 1, N_BARS - 1)] += part
    return bars


def columns_of_pieces(rng):
    """Columns of values, of spread pieces, of both and of no rows, some beyond their edges."""
    for n_values, n_spread, missing in ((5, 0, 0), (0, 40, 2), (7, 30, 0), (3, 3, 1), (0, 0, 0)):
        cuts = np.sort(rng.uniform(-1.2, 1.2, 2 * n_spread)).reshape(-1, 2)
        values = np.repeat(rng.choice([-1.0, 0.0, 0.5, 1.0], n_values), 2).reshape(-1, 2)
        both = np.concatenate([cuts, values])
        both = both[np.argsort(both[:, 0], kind="stable")]
        mass = rng.integers(0, 4, len(both)).astype(np.float64)
        yield (
            np.append(both[:, 0], [np.inf] * missing),
            np.append(both[:, 1], [np.inf] * missing),
            np.append(mass, [2.0] * missing),
        )


@pytest.mark.parametrize(
    "fill",
    [bars_of_columns, getattr(bars_of_columns, "py_func", bars_of_columns)],
    ids=["jit", "python"],
)
def test_bars_are_the_overlaps_of_the_pieces(fill):
    columns = [c for seed in range(8) for c in columns_of_pieces(np.random.default_rng(seed))]
    pieces, p = Pieces.of(columns), len(columns)
    edges = np.tile(np.linspace(-1.0, 1.0, N_BARS + 1), (p, 1))
    bars, n_at = np.zeros((p, N_BARS)), np.zeros(p, np.intp)
    at, share = np.zeros((2, len(pieces.lo)))
    fill(pieces, edges, bars, at, share, n_at)
    for d, (lo, hi, mass) in enumerate(columns):
        there = (mass > 0) & (lo < np.inf)
        parts = mass[there] / max(mass.sum(), 1.0)
        np.testing.assert_allclose(bars[d], overlaps(lo[there], hi[there], parts, edges[d]),
                                   rtol=1e-12, atol=1e-15)  # fmt: skip
        spread = (lo < hi)[there].any()
        assert n_at[d] == (-1 if spread else there.sum())
        own = slice(pieces.ends[d], pieces.ends[d] + there.sum())
        np.testing.assert_array_equal(at[own], lo[there])
        np.testing.assert_array_equal(share[own], parts)
