"""Facts of the columns: of all of them as arrays, of one as a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np

from ...numeric.bases.means import Pieces
from ...numeric.checks import check_array, check_offsets
from .counts.kernels_bins import COARSEST, N_BINS
from .counts.kernels_pieces import Counts, write_pieces
from .counts.quantiles import Cdf, quantiles

BLOCK_PIECES = 1 << 15
"""Pieces of distributions that are worked on at once: 768 KiB, and as much again in temporaries.

Larger ones than 1 MiB (`numeric.malloc`) are mapped anew each time: longer than the work."""
NAME_NBYTES = 100
"""Bytes of a column's name, an object of its own."""
SCALARS_NBYTES = 128
"""Bytes that the facts hold of a column beside its name and its distribution."""


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """Facts of one column.  Counts are sums of weights; int if there are none."""

    name: str
    count: float
    """Finite values; count + missing + infinite is the total weight."""
    missing: float
    infinite: float
    zeros: float
    min: float
    """Least finite value; as mean and variance (divided by `count`) NaN if there is none."""
    max: float
    mean: float
    variance: float
    values: np.ndarray | None
    """Sorted distinct values, if there are at most 256."""
    value_counts: np.ndarray | None
    bins: np.ndarray
    """Numbers of the non-empty bins of the non-zero values, as `kernels_bins` numbers them; empty
    if `values` are known, and in a summary of moments only."""
    bin_counts: np.ndarray
    first_bad: int | None
    """First physical row with NaN or infinity."""
    levels: tuple[str, ...] | None
    """Names of categories; `values` are their numbers, and rare and unknown ones are missing."""
    _distribution: Cdf

    def cdf(self) -> Cdf:
        """The distribution in pieces (lo, hi, mass), as `numeric.bases.breakpoints` takes it.

        Of a column of finite values summarised with its distribution (not `moments_only`).
        """
        return self._distribution

    @overload
    def quantile(self, q: float) -> float: ...
    @overload
    def quantile(self, q: Sequence[float] | np.ndarray) -> np.ndarray: ...
    def quantile(self, q: float | Sequence[float] | np.ndarray) -> float | np.ndarray:
        """Quantiles at shares q; exact for at most 256 values, else see `rank_error`."""
        found: float | np.ndarray = quantiles(self.cdf(), np.asarray(q))[()]
        return found

    @property
    def rank_error(self) -> float:
        """Largest error of a quantile's rank, as a share of the rows: the fullest bin's."""
        lo, hi, mass = self.cdf()
        spread = mass[lo < hi]
        return float(spread.max() / mass.sum()) if len(spread) else 0.0


class Distributions(NamedTuple):
    """The distributions of columns, as the members of the same names in `ColumnFacts`."""

    few: np.ndarray
    values: np.ndarray
    value_counts: np.ndarray
    value_ends: np.ndarray
    bins: np.ndarray
    bin_counts: np.ndarray
    """int64, or float64 of weights."""
    bin_ends: np.ndarray
    bin_levels: np.ndarray


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Facts of p columns as arrays, a number or a run a column; item j is a `ColumnSummary`.

    What is done for every column is arithmetic on these arrays: a record a column would cost more
    than the rows of a wide table.
    """

    names: tuple[str, ...]
    count: np.ndarray
    """(p,) as in `ColumnSummary`, like the seven that follow; int64 or, of weights, float64."""
    missing: np.ndarray
    infinite: np.ndarray
    zeros: np.ndarray
    min: np.ndarray
    max: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    first_bad: np.ndarray
    """(p,) int64 first physical row with NaN or infinity, -1 if there is none."""
    few: np.ndarray
    """(p,) bool: the columns whose distinct values are known."""
    values: np.ndarray
    """Distinct values of those columns, column after column, and"""
    value_counts: np.ndarray
    value_ends: np.ndarray
    """(p + 1,) where the values of each column begin and end."""
    bins: np.ndarray
    """uint16 numbers of the non-empty bins of the other columns, column after column."""
    bin_counts: np.ndarray
    """Their weights, integers in the narrowest type that holds them all."""
    bin_ends: np.ndarray
    """(p + 1,) where the bins of each column begin and end."""
    bin_levels: np.ndarray
    """(p,) uint8 levels of the bins; 0 of columns that have none."""
    levels: Mapping[str, tuple[str, ...]]
    """Names of the levels of the columns of categories."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and of the names."""
        arrays = (value for value in vars(self).values() if isinstance(value, np.ndarray))
        return sum(array.nbytes for array in arrays) + NAME_NBYTES * len(self.names)

    def check(self) -> None:
        """Raise ValueError unless the arrays agree: for those from a file."""
        p, own = len(self.names), "of columns of a summary"
        for name, weights in (
            ("count", self.count),
            ("missing", self.missing),
            ("infinite", self.infinite),
            ("zeros", self.zeros),
        ):
            kind = "integer" if weights.dtype.kind == "i" else "floating"
            check_array(f"{name} {own}", weights, (p,), kind, low=0)
        check_array(f"min {own}", self.min, (p,), finite=False)
        check_array(f"max {own}", self.max, (p,), finite=False)
        check_array(f"mean {own}", self.mean, (p,), finite=False)
        check_array(f"variance {own}", self.variance, (p,), finite=False)
        check_array(f"first_bad {own}", self.first_bad, (p,), "int64", low=-1)
        check_array(f"few {own}", self.few, (p,), "bool")
        check_array(f"values {own}", self.values, (None,))
        check_array(f"bins {own}", self.bins, (None,), "uint16", high=N_BINS - 1)
        check_array(f"bin_levels {own}", self.bin_levels, (p,), "uint8", high=COARSEST)
        for name, end, ends, counts in (
            ("value", len(self.values), self.value_ends, self.value_counts),
            ("bin", len(self.bins), self.bin_ends, self.bin_counts),
        ):
            check_offsets(f"{name}_ends {own}", ends, p, end)
            if counts.shape != (end,) or counts.dtype.kind not in "uif":
                raise ValueError(f"{name}_counts {own} are {counts.dtype} {counts.shape}")
        if not set(self.levels) <= set(self.names):
            raise ValueError(f"the levels {own} are those of other columns")

    @classmethod
    def joined(cls, parts: Sequence[ColumnFacts]) -> ColumnFacts:
        """The columns of one part after those of the other."""
        joined: dict[str, np.ndarray] = {}
        for name in (field.name for field in fields(cls)):
            if name in ("names", "levels"):
                continue
            own = [vars(part)[name] for part in parts]
            if name.endswith("_ends"):
                joined[name] = ends_of(np.concatenate([np.diff(part) for part in own]))
            else:
                joined[name] = np.concatenate(own)
        return cls(
            names=tuple(name for part in parts for name in part.names),
            levels={name: words for part in parts for name, words in part.levels.items()},
            **joined,
        )

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> ColumnSummary: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[ColumnSummary, ...]: ...
    def __getitem__(self, at: int | slice) -> ColumnSummary | tuple[ColumnSummary, ...]:
        if isinstance(at, slice):
            return tuple(self[j] for j in range(*at.indices(len(self))))
        j = range(len(self))[at]
        own, bins = slice(*self.value_ends[j : j + 2]), slice(*self.bin_ends[j : j + 2])
        name, bad = self.names[j], int(self.first_bad[j])
        count, n_missing, infinite, zeros, low, high, mean, variance = (
            values[j].item()
            for values in (
                *(self.count, self.missing, self.infinite, self.zeros),
                *(self.min, self.max, self.mean, self.variance),
            )
        )
        counts = self.bin_counts[bins]
        pieces = self.pieces(j, j + 1)
        n = len(pieces.lo) - bool(self.missing[j])  # those come last
        return ColumnSummary(
            name,
            *(count, n_missing, infinite, zeros),
            *(low, high, mean, variance),
            self.values[own] if self.few[j] else None,
            self.value_counts[own] if self.few[j] else None,
            self.bins[bins].astype(np.int64),
            counts if counts.dtype.kind == "f" else counts.astype(np.int64),
            None if bad < 0 else bad,
            self.levels.get(name),
            Cdf(pieces.lo[:n], pieces.hi[:n], pieces.mass[:n]),
        )

    def __iter__(self) -> Iterator[ColumnSummary]:
        return (self[j] for j in range(len(self)))

    @cached_property
    def n_levels(self) -> np.ndarray:
        """(p,) number of levels of the columns of categories, -1 of the others."""
        if not self.levels:
            return np.full(len(self), -1)
        return np.array([len(self.levels[name]) if name in self.levels else -1
                         for name in self.names])  # fmt: skip

    def present(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct values that have weight, and the (p + 1,) ends of each column's."""
        there = self.value_counts > 0
        ends = np.concatenate([[0], np.cumsum(there)])[self.value_ends]
        return self.values[there], ends

    def with_values(self, j: int, values: np.ndarray, counts: np.ndarray) -> ColumnFacts:
        """The same, but that column j has these distinct values."""
        first, last = self.value_ends[j : j + 2]
        n_values, few = np.diff(self.value_ends), self.few.copy()
        n_values[j], few[j] = len(values), True
        return replace(
            self,
            few=few,
            values=np.concatenate([self.values[:first], values, self.values[last:]]),
            value_counts=np.concatenate(
                [self.value_counts[:first], counts, self.value_counts[last:]]
            ),
            value_ends=ends_of(n_values),
        )

    @cached_property
    def n_pieces(self) -> np.ndarray:
        """(p,) number of pieces of each column's distribution."""
        n_bins = np.diff(self.bin_ends) + (self.zeros > 0)
        n = np.where(self.few, np.diff(self.value_ends), n_bins)
        return np.where(self.count > 0, n, 0) + (self.missing > 0)

    def blocks(self, most: int = BLOCK_PIECES) -> Iterator[tuple[int, int]]:
        """Runs of columns whose distributions have about `most` pieces: first, stop."""
        ends = np.cumsum(self.n_pieces)
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            stop = max(int(np.searchsorted(ends, before + most, "right")), first + 1)
            yield first, stop
            first = stop

    def distributions(self) -> Iterator[Pieces]:
        """The distributions of all columns, a block at a time."""
        return (self.pieces(first, stop) for first, stop in self.blocks())

    def pieces(self, first: int, stop: int) -> Pieces:
        """The distributions of some columns; what is missing lies at +inf, and last.

        A bin's mass is spread over what its values round to, cut to the exact range.
        """
        ends = ends_of(self.n_pieces[first:stop])
        lo, hi, mass = np.empty((3, ends[-1]))
        values, bins = (slice(e[first], e[stop]) for e in (self.value_ends, self.bin_ends))
        own = slice(first, stop)
        count, missing, zeros, low, high = (
            np.asarray(fact[own], np.float64)
            for fact in (self.count, self.missing, self.zeros, self.min, self.max)
        )
        counts = Counts(
            self.few[own],
            *(count, missing, zeros, low, high),
            np.asarray(self.values[values], np.float64),
            np.asarray(self.value_counts[values], np.float64),
            self.value_ends[first : stop + 1] - self.value_ends[first],
            self.bins[bins].astype(np.int64),
            np.asarray(self.bin_counts[bins], np.float64),
            self.bin_ends[first : stop + 1] - self.bin_ends[first],
            self.bin_levels[own].astype(np.int64),
        )
        pieces = Pieces(lo, hi, mass, ends)
        write_pieces(counts, pieces)
        return pieces


def ends_of(sizes: np.ndarray) -> np.ndarray:
    """(p + 1,) intp where runs of these sizes begin and end."""
    ends = np.zeros(len(sizes) + 1, np.intp)
    np.cumsum(sizes, out=ends[1:])
    return ends
