"""What is to be judged: values of C and of n_bases."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

GRID = (-3, 4)
"""An integer `Cs` is so many powers of 10, evenly spaced between these."""


class Candidate(NamedTuple):
    """What is to be judged."""

    n_bases: int
    C: float


def candidates(Cs: Any, n_bases: Any) -> list[Candidate]:
    """All of them, the simplest first: few splines, then small C."""
    if np.ndim(Cs) == 0:
        values = np.logspace(*GRID, int(Cs))
    else:
        values = np.unique(np.asarray(Cs, dtype=np.float64))
        if not len(values) or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"Cs must be positive finite numbers, got {Cs!r}")
    counts = np.unique(np.atleast_1d(n_bases))
    if counts.dtype.kind != "i" or not len(counts) or not ((counts > 1) & (counts < 257)).all():
        raise ValueError(f"n_bases must be an integer from 2 to 256 or several, got {n_bases!r}")
    return [Candidate(int(n), float(C)) for n in counts for C in values]
