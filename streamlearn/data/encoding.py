"""Columns of any kind as features that are numbers: one encoding for all families that need it.

    number       itself; or, of a period that the user gave, the sine and cosine of its circle
    time         years since 1970 (hours: the share of the day), and the sine and cosine of its
                 time of day, of week and of year
    category     1 for its level and 0 for the others; or, of many levels, the target's mean among
                 the rows of its level, and the logarithm of their number

One rule holds for a value that says nothing (missing, or a level that training did not have): every
feature of its column is the feature's mean over training, which centring makes 0 (0 itself in
sparse tables, which are not centred), and if training had such values, the column's indicator is 1.

A family with levels of its own (`Encoding.keeps_levels`) has fewer rules.  Its categories stay the
codes of their levels, but for those of many; its times are a calendar year, and the hour, the day
of the week and the day of the year, which its bases close to a circle, as they do what the period
of a number leaves of it; a missing number stays NaN; and a level without a target mean has the mean
of all rows, and 0 of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..numeric.checks import check_array, check_integer, check_number, check_records
from .clocks import CLOCKS, PERIODS, Clock, waves
from .column_types import CATEGORIES
from .columns import as_selector, select_csr
from .levels import Coder, HashCoder, LevelCoder
from .order import derive_seed, row_share
from .source import Csr

KINDS = ("number", "cyclic", "indicator", "target")
"""Kinds that a user may ask for."""
CODINGS = ("cyclic", "clock", "indicator", "target")
"""Kinds of `Coding`; "clock" is "cyclic" for families with levels of their own."""
N_PARTS = 5
"""Parts of the rows, by a hash of their numbers: a row's target mean is that of the other parts."""
_PURPOSE = 0x656E636F6465
"""Keeps these parts apart from splits by the same seed: they hash the same row numbers."""


_PLACES_NBYTES = 9
"""Bytes of a row in the mask of one column, and in the places of what it masks."""
_CODED_NBYTES = 64
"""Bytes of a row while one column's codes are found and looked up."""


class Coding(NamedTuple):
    """Rule by which one column that is no plain number becomes features."""

    position: int
    """Place of the column among those stored."""
    kind: str
    """One of `CODINGS`."""
    type: str
    """Type of the column as it is stored."""
    levels: tuple[str, ...] = ()
    """Words that have an indicator each."""
    hashes: np.ndarray | None = None
    """(L,) uint64 ascending: the levels that have a target mean, by the hashes of their words."""
    table: np.ndarray | None = None
    """(L + 1, O + 1) float64: target means and log(1 + weight) of each level, and of none."""
    apart: np.ndarray | None = None
    """(N_PARTS, L + 1, O) float64: means over the rows that are not in a part; while training."""
    outputs: tuple[str, ...] = ()
    """Text after the column's name in the names of its target means, one for each mean."""
    period: float = 0.0
    """The number after which a column of numbers begins again; 0 of all others."""

    def coder(self, name: str) -> LevelCoder:
        """Codes of the column's words."""
        if self.hashes is not None:
            return HashCoder(name, self.hashes)
        return Coder(name, self.levels)

    def periods(self) -> list[str]:
        """The periods of a time that are drawn as circles: a date has no hours, an hour no date."""
        if self.type == "time":
            return ["day"]
        return ["week", "year"] if self.type == "date" else list(PERIODS)

    def suffixes(self) -> tuple[str, ...]:
        """The text after the column's name in the names of its features, one for each feature."""
        if self.period:
            return ("",) if self.kind == "clock" else ("=sin", "=cos")
        if self.kind == "cyclic":
            waves = [f"={wave}({period})" for period in self.periods() for wave in ("sin", "cos")]
            return ("", *waves)
        if self.kind == "clock":
            clocks = [CLOCKS[period][0] for period in self.periods()]
            return tuple(clocks) if self.type == "time" else ("", *clocks)
        if self.kind == "indicator":
            return tuple(f"={level}" for level in self.levels)
        return (*self.outputs, "=count")

    def clocks(self) -> list[Clock]:
        """The features of a "clock"."""
        if self.period:
            return [Clock(1.0, 0.0, self.period)]
        found = [
            Clock(unit, begin, PERIODS[period] / unit)
            for period in self.periods()
            for _, unit, begin in (CLOCKS[period],)
        ]
        return found if self.type == "time" else [Clock(PERIODS["year"], 1970.0, 0.0), *found]

    def fill(self, values: np.ndarray, part: np.ndarray | None, out: np.ndarray) -> np.ndarray:
        """Write the features of a column (m,) to `out` (m, w); where it says nothing, (m,) bool.

        `part` is (m,) the part of each row, if it must not see its own target.
        """
        empty = np.isnan(values)
        if self.kind == "cyclic" and self.period:
            out[:, 0], out[:, 1] = waves(values, self.period)
            return empty
        if self.kind == "cyclic":
            out[:, 0] = values / PERIODS[self.periods()[-1]]
            for k, period in enumerate(self.periods()):
                out[:, 1 + 2 * k], out[:, 2 + 2 * k] = waves(values, PERIODS[period])
            return empty
        if self.kind == "clock":
            for k, clock in enumerate(self.clocks()):
                out[:, k] = clock.of(values)
            return empty
        codes = np.where(empty, -1, values).astype(np.intp)
        if self.kind == "indicator":
            out[:] = 0
            known = np.flatnonzero(~empty)
            out[known, codes[known]] = 1
            return empty
        assert self.table is not None
        out[:] = self.table[codes]
        if part is not None and self.apart is not None:
            out[:, :-1] = self.apart[part, codes]
        return empty

    def check(self) -> None:
        """Raise ValueError if no training makes this."""
        check_integer("position", self.position, 0, 2**31)
        if self.kind not in CODINGS:
            raise ValueError(f"a column is encoded as {self.kind!r}")
        check_number("period", self.period, 0.0)
        if self.period and self.kind not in ("cyclic", "clock"):
            raise ValueError(f"a column encoded as {self.kind!r} has the period {self.period!r}")
        check_records("levels", self.levels, str)
        check_records("outputs", self.outputs, str)
        if self.kind == "target":
            check_array("hashes", self.hashes, (None,), "<u8")
            assert self.hashes is not None
            if not (self.hashes[:-1] < self.hashes[1:]).all():
                raise ValueError("hashes of levels do not ascend")
            check_array("table", self.table, (len(self.hashes) + 1, len(self.outputs) + 1))
        if self.apart is not None:
            raise ValueError("means of parts belong to a fit, not to a model")


class Encoding(NamedTuple):
    """Rules by which the columns of a table become features; a record of a fitted model.

    Feature names are the column's own, ``column=level``, ``column=mean``, ``column=sin(day)``, and
    ``column=missing`` (of categories ``column=other``) for the indicator of what says nothing.
    """

    names: tuple[str, ...]
    """Names of the columns stored, p of them."""
    codings: tuple[Coding, ...] = ()
    """Codings of the columns that are no plain numbers, in order."""
    missing: np.ndarray | None = None
    """(p,) bool: columns that had missing values in training; None until that is known."""
    location: np.ndarray | None = None
    """(P,) float64: what a feature is where its column says nothing; None: NaN."""
    sparse: bool = False
    pick: np.ndarray | None = None
    """Numbers of the features wanted, of those of all these columns; None: all, in order."""
    seed: int = 0
    keeps_levels: bool = False
    """Whether the family has levels of its own, for categories and for what is missing."""

    # What it makes.

    def _layout(self) -> tuple[np.ndarray, dict[int, Coding]]:
        """(p,) features of each column without its indicator; codings by position."""
        codings = {coding.position: coding for coding in self.codings}
        widths = np.ones(len(self.names), np.intp)
        for j, coding in codings.items():
            widths[j] = len(coding.suffixes())
        return widths, codings

    def _indicators(self) -> np.ndarray:
        return np.zeros(len(self.names), bool) if self.missing is None else self.missing

    @property
    def is_plain(self) -> bool:
        """Whether every feature is a column, as it is where nothing is missing."""
        return not self.codings and self.pick is None and not self._indicators().any()

    @property
    def column_of(self) -> np.ndarray:
        """(n_features,) number of the column that each feature is made of."""
        widths, _ = self._layout()
        of = np.repeat(np.arange(len(self.names)), widths + self._indicators())
        return of if self.pick is None else of[self.pick]

    @property
    def n_features(self) -> int:
        if self.pick is not None:
            return len(self.pick)
        return int(self._layout()[0].sum() + self._indicators().sum())

    @property
    def clocks(self) -> list[Clock | None]:
        """Rule of each feature that is made of a time or has a period; None of the others."""
        _, codings = self._layout()
        found: list[Clock | None] = []
        for j, said in enumerate(self._indicators().tolist()):
            coding = codings.get(j)
            if coding is not None and coding.kind == "clock":
                found += coding.clocks()
            else:
                found += [None] * (1 if coding is None else len(coding.suffixes()))
            found += [None] * said
        return found if self.pick is None else [found[k] for k in self.pick.tolist()]

    @property
    def plain_columns(self) -> tuple[str, ...]:
        """Names of the columns that are features as they are."""
        _, codings = self._layout()
        return tuple(name for j, name in enumerate(self.names) if j not in codings)

    def widths(self, squares: np.ndarray) -> np.ndarray:
        """(n_features,) roots of features' mean squares; indicators of a category share one.

        It is the root of their sum: two rows of different levels are then as far apart as two rows
        of a number, on average, whichever levels they have.  Each divided by its own, levels that
        few rows have would make all distances, and cost a penalty on coefficients least.
        """
        of = self.column_of
        words = [coding.position for coding in self.codings if coding.kind == "indicator"]
        whole = np.bincount(of, squares, len(self.names))[of]
        return np.sqrt(np.where(np.isin(of, words), whole, squares))

    def renamed(self, columns: Sequence[str]) -> list[str]:
        """Names of the features, in order, of columns of these names."""
        return self._replace(names=tuple(map(str, columns))).feature_names()

    def feature_names(self) -> list[str]:
        """Names of the features, in order."""
        _, codings = self._layout()
        said = self._indicators()
        found: list[str] = []
        for j, name in enumerate(self.names):
            coding = codings.get(j)
            suffixes = ("",) if coding is None else coding.suffixes()
            found += [name + suffix for suffix in suffixes]
            if said[j]:
                levels = coding is not None and coding.kind != "cyclic"
                found.append(f"{name}={'other' if levels else 'missing'}")
        return found if self.pick is None else [found[k] for k in self.pick.tolist()]

    def coders(self) -> dict[str, LevelCoder]:
        """Coders of the columns of words, which a store reads as codes."""
        return {
            self.names[coding.position]: coding.coder(self.names[coding.position])
            for coding in self.codings
            if coding.type in CATEGORIES
        }

    @property
    def nbytes(self) -> int:
        """Bytes of its tables."""
        tables = [t for c in self.codings for t in (c.hashes, c.table, c.apart)]
        return sum(table.nbytes for table in tables if table is not None)

    # Its other forms.

    def of_model(self) -> Encoding:
        """The encoding of rows to come: without what only training rows need."""
        return self._replace(codings=tuple(c._replace(apart=None) for c in self.codings))

    def of_features(self, names: Sequence[str]) -> tuple[list[int], Encoding]:
        """The columns that some features are made of, and the encoding of these columns alone."""
        numbers = {name: k for k, name in enumerate(self.feature_names())}
        wanted = np.array([numbers[name] for name in names], np.intp)
        every = wanted if self.pick is None else self.pick[wanted]
        of = self._replace(pick=None).column_of
        columns = np.unique(of[every])
        kept = np.flatnonzero(np.isin(of, columns))
        place = {j: i for i, j in enumerate(columns.tolist())}
        pick = np.searchsorted(kept, every)
        part = Encoding(
            tuple(self.names[j] for j in columns.tolist()),
            tuple(
                coding._replace(position=place[coding.position])
                for coding in self.codings
                if coding.position in place
            ),
            None if self.missing is None else self.missing[columns],
            None if self.location is None else self.location[kept],
            self.sparse,
            None if np.array_equal(pick, np.arange(len(kept))) else pick,
            self.seed,
            self.keeps_levels,
        )
        return columns.tolist(), part

    def with_missing(self, missing: np.ndarray, means: np.ndarray) -> Encoding:
        """The encoding after a read of the features, which has found what values are missing.

        `means` are those of the features without indicators.
        """
        means = np.zeros(len(means)) if self.sparse else np.nan_to_num(means)
        widths, _ = self._layout()
        location = np.zeros(int(widths.sum() + missing.sum()))
        starts = np.cumsum(widths + missing) - widths - missing
        location[_runs(starts, widths)] = means
        location[(starts + widths)[missing]] = 1.0
        return self._replace(missing=missing, location=location)

    # Rows.

    def parts(self, rows: np.ndarray | range) -> np.ndarray | None:
        """(m,) the part of each training row; None where no table is kept apart."""
        if all(coding.apart is None for coding in self.codings):
            return None
        return parts_of(rows, self.seed)

    def encode(
        self, X: np.ndarray | Csr, rows: np.ndarray | range, *, in_place: bool = False
    ) -> np.ndarray | Csr:
        """The features of rows; `X` itself, if all are plain numbers and there, or `in_place`."""
        if isinstance(X, Csr):
            return self._encode_sparse(X)
        if self.is_plain:
            return self._filled(X, in_place)
        widths, codings = self._layout()
        said = self._indicators()
        starts = np.cumsum(widths + said) - widths - said
        by_column = X.flags.f_contiguous and not X.flags.c_contiguous
        out = np.empty((len(X), int(widths.sum() + said.sum())), X.dtype, "F" if by_column else "C")
        part = self.parts(rows)
        plain = np.array([j for j in range(len(self.names)) if j not in codings], np.intp)
        numbers = X[:, as_selector(plain)]
        out[:, as_selector(starts[plain])] = numbers
        empty = np.isnan(numbers)
        empty &= not self.keeps_levels  # its missing numbers stay NaN
        for j in np.flatnonzero(empty.any(axis=0) | said[plain]).tolist():
            self._put_empty(empty[:, j], int(plain[j]), starts, widths, said, out)
        for j, coding in codings.items():
            values = X[:, j]
            if coding.kind in ("indicator", "target") and coding.type not in CATEGORIES:
                values = codes_of(values, coding.coder(self.names[j]))
            here = out[:, starts[j] : starts[j] + widths[j]]
            empty = coding.fill(values, part, here)
            if not self.keeps_levels:
                self._put_empty(empty, j, starts, widths, said, out)
        return out if self.pick is None else out[:, self.pick]

    def _filled(self, X: np.ndarray, in_place: bool) -> np.ndarray:
        """Plain numbers, what is missing at their locations."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.location is None or np.isfinite(X.sum()):
                return X
        out = X if in_place else np.array(X, order="K")
        for column, location in zip(out.T, self.location, strict=True):  # a mask of one at a time
            column[np.isnan(column)] = location
        return out

    def beside_nbytes(self, row_nbytes: float, itemsize: int, in_place: bool) -> float:
        """Bytes of a row that `encode` takes beside its features: the row as stored, and masks."""
        p = len(self.names)
        if self.sparse:
            return row_nbytes + _CODED_NBYTES
        if self.is_plain:
            return _PLACES_NBYTES + (0 if in_place else p * itemsize)
        plain = sorted(set(range(p)) - {coding.position for coding in self.codings})
        beside = p * itemsize + len(plain) + _PLACES_NBYTES  # whether each number is missing
        if not isinstance(as_selector(plain), slice):
            beside += len(plain) * itemsize
        if self.codings:
            most = max(len(coding.outputs) for coding in self.codings)
            beside += _CODED_NBYTES + 8 * (most + 1)
        if self.pick is not None:
            beside += self._replace(pick=None).n_features * itemsize
        return beside

    def _put_empty(
        self,
        empty: np.ndarray,
        j: int,
        starts: np.ndarray,
        widths: np.ndarray,
        said: np.ndarray,
        out: np.ndarray,
    ) -> None:
        """Rows in which a column says nothing: its features, and its indicator."""
        a, b = int(starts[j]), int(starts[j] + widths[j])
        out[empty, a:b] = np.nan if self.location is None else self.location[a:b]
        if said[j]:
            out[:, b] = empty

    def _encode_sparse(self, X: Csr) -> Csr:
        if self.location is None or (self.is_plain and not np.isnan(X.data.sum())):
            return X
        said = self._indicators()
        starts = np.arange(len(self.names)) + np.cumsum(said) - said
        empty = np.isnan(X.data)
        marked = empty & said[X.indices]
        data = np.where(empty, X.data.dtype.type(0), X.data)
        data[marked] = 1
        indices = (starts[X.indices] + marked).astype(X.indices.dtype)
        csr = Csr(data, indices, X.indptr, len(said) + int(said.sum()))
        return csr if self.pick is None else select_csr(csr, self.pick.tolist())

    def check(self) -> None:
        """Raise ValueError if no training makes this: it may come from a file."""
        p = len(self.names)
        check_records("codings", self.codings, Coding)
        positions = [coding.position for coding in self.codings]
        if positions != sorted(set(positions)) or (positions and positions[-1] >= p):
            raise ValueError(f"columns {positions} of {p} are encoded")
        check_array("missing", self.missing, (p,), "|b1")
        for coding in self.codings:
            coding.check()
        if self.pick is not None or (self.sparse and self.codings):
            raise ValueError("the encoding is of a part of a model")
        if not self.keeps_levels:
            check_array("location", self.location, (self.n_features,))
        elif self.location is not None or self.sparse or self._indicators().any():
            raise ValueError("the encoding fills in values, and its family has levels for them")


def _runs(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers start, start + 1, ... of each run, one run after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def parts_of(rows: np.ndarray | range, seed: int) -> np.ndarray:
    """(m,) the part of each row, a function of its number and the seed alone."""
    return (row_share(rows, derive_seed(seed, _PURPOSE)) * N_PARTS).astype(np.intp)


def codes_of(values: np.ndarray, coder: LevelCoder) -> np.ndarray:
    """Codes of numbers that are taken for categories."""
    different, at = np.unique(values, return_inverse=True)
    return coder.of_words(different.tolist())[:-1][at]
