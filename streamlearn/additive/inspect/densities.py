"""Densities of the training rows along each column, by which curves are drawn and weighed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...numeric.bases.bsplines import Bases
from ...numeric.bases.means import Pieces
from ...numeric.bases.registry import LEVELS
from ...numeric.checks import check_array, check_offsets
from ...passes.summary.facts import ColumnFacts, ends_of
from ..basis.kernels_bars import bars_of_columns
from .figures import Shares, has_values

POINTS = 8
"""Points of each bar of a density at which curves are taken."""
N_BARS = 32
"""Bars of the density of a column that is drawn as a line."""
STEPS = np.arange(N_BARS + 1) / N_BARS


class Density(NamedTuple):
    """Shares of the rows between edges, or at values."""

    at: np.ndarray
    """(m + 1,) edges, or (m,) values."""
    share: np.ndarray
    """(m,) adding up to 1 but for what lies outside the edges, or is missing."""
    missing: float
    """Share of the rows without a value."""


def pieces_of(density: Density) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The density as the starts, ends and masses of pieces; the missing value is the last."""
    by_value = has_values(density)
    lo = density.at if by_value else density.at[:-1]
    hi = density.at if by_value else density.at[1:]
    return np.append(lo, np.inf), np.append(hi, np.inf), np.append(density.share, density.missing)


def points_of(density: Shares) -> tuple[np.ndarray, np.ndarray]:
    """Values at which rows lie, evenly spaced in each bar, and their shares; none missing."""
    at, share = density.at, density.share
    if has_values(density):
        return at, share
    steps = (np.arange(POINTS) + 0.5) / POINTS
    return (at[:-1, None] + np.diff(at)[:, None] * steps).ravel(), np.repeat(share / POINTS, POINTS)


def join_densities(parts: Sequence[Density], weights: np.ndarray, knots: np.ndarray) -> Density:
    """The density of the rows of all parts along one column with these breakpoints.

    `weights` (m,): the share of all rows that each part has.
    """
    missing = float(sum(w * part.missing for w, part in zip(weights, parts, strict=True)))
    known = [(w, part) for w, part in zip(weights, parts, strict=True) if part.share.size]
    if not known:
        return Density(np.empty(0), np.empty(0), missing)
    at = known[0][1].at
    if all(np.array_equal(part.at, at) for _, part in known):
        return Density(at, sum(w * part.share for w, part in known), missing)
    # values in one part, bars in another
    at = _edges(knots)
    share = np.zeros(N_BARS)
    for w, part in known:
        own = part.share
        if has_values(part):
            own = np.histogram(np.clip(part.at, at[0], at[-1]), at, weights=own)[0]
        share += w * own
    return Density(at, share, missing)


def _edges(knots: np.ndarray) -> np.ndarray:
    """(N_BARS + 1,) edges of the bars of a column with these breakpoints."""
    low, high = knots[0], knots[-1]
    edges = low + STEPS * (high - low)
    edges[-1] = high
    return edges


class Densities(NamedTuple):
    """The `Density` of every column, as arrays."""

    bars: np.ndarray
    """(p, N_BARS) shares between evenly spaced edges from the first breakpoint to the last."""
    at: np.ndarray
    """Values that have a coefficient each, column after column, and"""
    share: np.ndarray
    """their shares, and"""
    ends: np.ndarray
    """(p + 1,) where those of each column begin and end; a column without has bars."""
    missing: np.ndarray
    """(p,) shares of the rows without a value."""

    def check(self) -> None:
        """Raise ValueError unless the arrays agree: for those from a file."""
        p = len(self.missing)
        check_array("densities.bars", self.bars, (p, N_BARS))
        check_array("densities.missing", self.missing, (p,))
        check_array("densities.at", self.at, (None,))
        check_array("densities.share", self.share, (len(self.at),))
        check_offsets("densities.ends", self.ends, p, len(self.at))

    @classmethod
    def of(cls, columns: list[Density]) -> Densities:
        """The arrays of the densities of single columns."""
        by_value = [len(one.at) == len(one.share) for one in columns]
        none = np.empty(0)
        counted = [one for one, few in zip(columns, by_value, strict=True) if few]
        at = np.concatenate([none, *(one.at for one in counted)])
        share = np.concatenate([none, *(one.share for one in counted)])
        bars = [np.zeros(N_BARS) if few else one.share
                for one, few in zip(columns, by_value, strict=True)]  # fmt: skip
        sizes = np.array([len(one.at) * few for one, few in zip(columns, by_value, strict=True)])
        missing = np.array([one.missing for one in columns], np.float64)
        return cls(np.array(bars).reshape(-1, N_BARS), at, share, ends_of(sizes), missing)

    def by_column(self, knots: list[np.ndarray]) -> list[Density]:
        """A record a column; `knots` are its breakpoints, none if it is constant."""
        out = []
        for d, (a, z) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True)):
            at, share = self.at[a:z], self.share[a:z]
            if a == z and self.bars[d].any():
                at, share = _edges(knots[d]), self.bars[d]
            out.append(Density(at, share, float(self.missing[d])))
        return out


class CountedDensities:
    """The density of every column, counted while a summary's distributions pass by.

    At the values of a column if each has a breakpoint, else in 32 bars.
    """

    def __init__(self, facts: ColumnFacts, bases: Bases) -> None:
        self._facts, self._bases = facts, bases
        p, is_finite = len(facts), np.isfinite(bases.knots)
        self._n_points = np.diff(np.concatenate([[0], np.cumsum(is_finite)])[bases.first_knot])
        self._low, self._high = np.zeros((2, p))
        used = np.flatnonzero(self._n_points)
        if len(used):
            last = bases.first_knot[used] + self._n_points[used] - 1
            self._low[used] = bases.knots[bases.first_knot[used]]
            self._high[used] = bases.knots[last]
        self._bars, self._sizes = np.zeros((p, N_BARS)), np.zeros(p, np.intp)
        # a value that has a breakpoint is the column's own value: these are few enough to keep
        self._keeps = (bases.kind == LEVELS) | facts.few
        self._values: list[np.ndarray] = []
        self._shares: list[np.ndarray] = []

    def distributions(self) -> Iterator[Pieces]:
        """The distributions of all columns, a block at a time; each is counted, then passed on."""
        for first, stop in self._facts.blocks():
            pieces = self._facts.pieces(first, stop)
            self._count(first, stop, pieces)
            yield pieces

    def _count(self, first: int, stop: int, pieces: Pieces) -> None:
        own, facts, n_points = slice(first, stop), self._facts, self._n_points
        low, high = self._low[own, None], self._high[own]
        edges = low + STEPS * (high[:, None] - low)
        edges[:, -1] = high
        at, share = np.empty((2, len(pieces.lo)))
        n_at = np.zeros(stop - first, np.intp)
        bars_of_columns(pieces, edges, self._bars[own], at, share, n_at)
        kept = self._keeps[own] & (n_points[own] > 0) & (facts.count[own] > 0)
        for d in first + np.flatnonzero(kept):
            begin, n = pieces.ends[d - first], n_at[d - first]
            values = at[begin : begin + n]
            part: np.ndarray = share[begin : begin + n]
            if self._bases.kind[d] == LEVELS:  # some may be there in rows that weigh nothing alone
                part = np.bincount(values.astype(np.intp), part, n_points[d])
                values = np.arange(n_points[d], dtype=np.float64)
            elif n != n_points[d]:
                continue
            self._values.append(values.copy())
            self._shares.append(part.copy())
            self._sizes[d] = n_points[d]

    def finish(self) -> Densities:
        """The densities, once all distributions have passed; takes no more."""
        facts, bars, none = self._facts, self._bars, np.empty(0)
        total = facts.count + facts.missing
        missing = facts.missing / np.where(total > 0, total, 1)
        bars[(self._sizes > 0) | (self._n_points == 0) | (facts.count == 0)] = 0.0
        values, shares = (np.concatenate([none, *parts]) for parts in (self._values, self._shares))
        return Densities(bars, values, shares, ends_of(self._sizes), missing)
