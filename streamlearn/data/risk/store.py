"""A table of rows at risk, made chunk by chunk of the rows of a dataset.

Row number r J + j is step j of row r, of J steps; numbers of steps that a row does not enter are
left out, as by a filter.  So numbers never depend on what was read before, a slice of them reads
J times fewer rows below, and no chunk is longer than its slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from ...errors import SourceError, leave_out
from ..choice import Choice, Chosen
from ..column_types import CATEGORIES
from ..columns import Buffer, select_csr
from ..dask.store import DaskStore
from ..levels import LevelCoder
from ..order import HashShare
from ..roles import some
from ..row_ranges import Ref
from ..source import Chunk, Csr, SourceReader
from ..store import Column, Store
from .features import DenseFeatures, SparseFeatures
from .steps import Entered, Steps

BLOCK = 1 << 16
"""Rows at risk made at a time, by temporaries of `STEP_NBYTES` each."""
STEP_NBYTES = 6 * 8
STORED_NBYTES = 8
"""Bytes of a stored value and its column number, at least."""
BESIDE_NBYTES = 8 + 8 + 1
"""Bytes of a row at risk beside its features: its number, weight and target."""
SUBJECT_NBYTES = 9 * 8
"""Bytes beside a row below: how far it comes, where its steps begin and how many are asked for."""


class RowsAtRisk(Store):
    """The rows of a dataset, once for every step that each enters."""

    def __init__(self, data: Choice, steps: Steps) -> None:
        """`data` has all columns that the steps ask for; its target is what ends a row's steps."""
        _check_below(data, steps)
        self.steps = steps
        self.siblings = steps.n_steps
        self.kind = f"rows at risk, {data.kind}"
        self.features = tuple(name for name in data.feature_names if name not in steps.reads)
        self.sparse = data.sparse
        self.filtered = steps.is_ended or data.n_rows != data.n_physical_rows
        self.takes_levels = data.store.takes_levels and not data.maps
        known = {} if data.maps else data.store.levels
        self.levels = {name: known[name] for name in self.features if name in known}
        self._over(data)

    def _over(self, data: Choice) -> None:
        """Take the rows from this dataset."""
        self.data = data
        n_rows: int | None = data.n_physical_rows
        # of a stream, and of partitions of unknown lengths, known once they are written to scratch
        self.n_rows = None if n_rows is None else self.siblings * n_rows  # type: ignore[assignment]
        self.in_memory, self.passes_before = data.in_memory, data.passes_before
        self.n_missing_chunks, self.shared_nbytes = data.n_missing_chunks, data.shared_nbytes
        kinds = {} if data.maps else data.column_types
        columns = [Column(name, kinds.get(name, data.dtype.name)) for name in self.features]
        columns += self.steps.columns
        if data.target is not None:
            columns.append(Column(data.target, "uint8"))
        if data.weight is not None:
            columns.append(Column(data.weight, data.column_types[data.weight]))
        self.columns = tuple(columns)

    @property
    def base(self) -> Store:
        return self.data.store.base

    def over(self, data: Choice) -> Self:
        """The same rows, read from elsewhere."""
        store = copy(self)
        store._over(data)
        return store

    def coded(self, coders: Mapping[str, LevelCoder]) -> Self:
        store = self.over(self.data.with_coders(coders))
        store.levels = {**self.levels, **coders}
        return store

    def choosing(self, shares: tuple[HashShare, ...]) -> tuple[Self, tuple[HashShare, ...]]:
        """The steps of the rows below with these shares: a subject has the number of its row."""
        if not shares:
            return self, shares
        return self.over(replace(self.data, shares=(*self.data.shares, *shares), _counted=[])), ()

    def below(self, names: Sequence[str]) -> Choice:
        """The dataset with those of its features that are asked for, and what the steps ask for."""
        known = set(self.features)
        kept = [name for name in names if name in known]
        return self.data.select([*kept, *self.steps.reads] or self.data.feature_names[:1])

    def boundaries(self) -> np.ndarray:
        return self.siblings * self.data.store.boundaries()

    def live(self) -> np.ndarray:
        return self.data.store.live()

    def row_nbytes(self, names: Sequence[str], dtype: np.dtype) -> float:
        if not self.sparse:
            return super().row_nbytes(names, dtype)
        known = set(self.features)
        kept = [name for name in names if name in known] or self.features[:1]
        own = sum(name in self.steps.names for name in names)
        return self.data.store.row_nbytes(kept, dtype) + own * (dtype.itemsize + 8)

    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        m = min(slice_rows // self.siblings + 2, self.data.n_physical_rows)
        below = self.below(names).with_slice_rows(m)
        row = below.decoded_nbytes / max(below.n_physical_rows, 1)
        copied, each = 0.0, 1.0
        if self.sparse:  # columns are chosen by a copy, and stored values copied one by one
            copied, each = row, self.row_nbytes(names, below.dtype) / STORED_NBYTES
        beside = BESIDE_NBYTES * min(slice_rows, self.n_rows)
        at_once = int(min(slice_rows * each, max(BLOCK, self.siblings * each)))
        below_nbytes = below.overhead_nbytes + int(m * (row + copied + SUBJECT_NBYTES))
        return below_nbytes + beside + STEP_NBYTES * at_once

    def left_out_nbytes(self, names: Sequence[str], dtype: np.dtype) -> int:
        return int(self.row_nbytes(names, dtype)) + BESIDE_NBYTES

    def stored_nbytes(self, names: Sequence[str]) -> int:
        return self.below(names).stored_nbytes

    def open(
        self, names: Sequence[str], target: str | None, weight: str | None, dtype: np.dtype
    ) -> RiskReader:
        return RiskReader(self, names, target, weight, np.dtype(dtype))

    def rows_below(self, start: int, stop: int) -> tuple[int, int]:
        """The rows below, from the first to after the last, whose steps have these numbers."""
        return start // self.siblings, -(-stop // self.siblings)

    def place(self, start: int, stop: int) -> str:
        return self.data.store.place(*self.rows_below(start, stop))

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "kind": self.kind,
            "n_rows": self.n_rows,
            "columns": [[column.name, column.dtype] for column in self.columns],
            "steps": self.steps.identity(),
            "rows": self.data.fingerprint(),
        }

    def locations(self) -> tuple[str, ...]:
        return self.data.store.locations()

    def versions(self) -> Mapping[str, str]:
        return self.data.versions()


class Subjects(NamedTuple):
    """Rows below, in the buffers of their reader, and how far each comes."""

    rows: np.ndarray
    X: np.ndarray | Csr
    weight: np.ndarray | None
    words: np.ndarray | None
    entered: Entered

    def copy_of(self, row: int) -> Subjects:
        """The row of this number alone; nothing if it was left out."""
        index = np.flatnonzero(self.rows == row)
        weight = None if self.weight is None else self.weight[index]
        words = None if self.words is None else self.words[index]
        X = self.X.take(index) if isinstance(self.X, Csr) else self.X[index]
        return Subjects(self.rows[index], X, weight, words, self.entered.take(index))


class RiskReader:
    """Steps of rows in buffers of their own, each column together."""

    def __init__(
        self,
        store: RowsAtRisk,
        names: Sequence[str],
        target: str | None,
        weight: str | None,
        dtype: np.dtype,
    ) -> None:
        self._store, self._names, self._target = store, tuple(names), target
        self._below = store.below(names)
        kind = SparseFeatures if store.sparse else DenseFeatures
        self._features = kind(self._names, self._below.feature_names, dtype)
        self._reader: SourceReader = self._below.reader()
        apart = target in store.features
        self._words = store.data.column(str(target)).reader() if apart else None
        self._weighted = weight is not None
        self._numbers = [Buffer(np.dtype(kind)) for kind in (np.int64, np.float64, np.uint8)]
        self._kept: tuple[int, Subjects] | None = None
        """The last row below, if some of its steps are in the next slice; and its number."""

    def close(self) -> None:
        self._reader.__exit__(None, None, None)
        if self._words is not None:
            self._words.__exit__(None, None, None)

    def read(self, start: int, stop: int) -> Chunk:
        """Physical rows [start, stop) of the steps, those that their rows enter."""
        first, last = self._store.rows_below(start, stop)
        J = self._store.siblings
        pieces = []
        if self._kept is not None and self._kept[0] == first:
            pieces.append(self._kept[1])  # read once: a reader does not like to go back
            first += 1
        if first < last:
            pieces.append(self._read_below(first, last))
        chunk = self._expand(pieces, start, stop)
        self._kept = (last - 1, pieces[-1].copy_of(last - 1)) if stop % J else None
        return chunk

    def _read_below(self, first: int, last: int) -> Subjects:
        ref = Ref(first, last, 0)
        chunk = self._reader.read(ref)
        words = None if self._words is None else self._words.read(ref).y
        told = chunk
        if isinstance(chunk.X, Csr) and self._store.steps.reads:
            times = select_csr(chunk.X, [chunk.X.n_columns - 1])
            told = replace(chunk, X=times.dense())
        try:
            entered = self._store.steps.enter(told)
        except SourceError as error:
            advice = leave_out(self._below.kind)
            raise SourceError(f"{self._below.place(ref)}: {error}; {advice}") from error
        weight = chunk.weight if self._weighted else None
        X = self._features.kept(chunk.X)
        return Subjects(chunk.numbers, X, weight, words, entered)

    def _expand(self, pieces: list[Subjects], start: int, stop: int) -> Chunk:
        J, steps = self._store.siblings, self._store.steps
        firsts = [np.maximum(start - J * piece.rows, 0) for piece in pieces]
        lengths = [
            np.maximum(np.minimum(piece.entered.counts, stop - J * piece.rows) - first, 0)
            for piece, first in zip(pieces, firsts, strict=True)
        ]
        n = int(sum(length.sum() for length in lengths))
        features = self._features
        features.begin([(length, p.X) for length, p in zip(lengths, pieces, strict=True)])
        numbers, weights, target = (buffer.take(n, 1)[:, 0] for buffer in self._numbers)
        told: list[np.ndarray] = []
        at = 0
        for piece, first, length in zip(pieces, firsts, lengths, strict=True):
            for a, b in _blocks(length * features.sizes(piece.X)):
                of = np.repeat(np.arange(a, b), length[a:b])
                here = slice(at, at + len(of))
                begins = np.cumsum(length[a:b]) - length[a:b]
                step = np.arange(len(of)) + (first[a:b] - begins)[of - a]
                numbers[here] = J * piece.rows[of] + step
                durations = piece.entered.durations[of]
                own = partial(steps.values, step=step, durations=durations)
                features.put(at, of, piece.X, own)
                if self._target in steps.names:
                    told.append(steps.values(str(self._target), step, durations))
                elif piece.words is not None:
                    told.append(piece.words[of])
                else:
                    last = step == piece.entered.counts[of] - 1
                    np.logical_and(last, piece.entered.ends[of], out=target[here])
                if piece.weight is not None:
                    weights[here] = piece.weight[of]
                at = here.stop
        y: np.ndarray | None = target
        if self._target is None:
            y = None
        elif told:
            y = np.concatenate(told)
        return Chunk(
            features.finish(),
            y,
            weights if self._weighted else None,
            range(start, stop) if n == stop - start else numbers,
        )


def _blocks(sizes: np.ndarray) -> list[tuple[int, int]]:
    """Runs of rows below whose steps have about `BLOCK` temporaries together, or with one row."""
    ends = np.cumsum(sizes)
    cuts = np.arange(BLOCK, ends[-1] if len(ends) else 0, BLOCK)
    edges = np.unique([0, *np.searchsorted(ends, cuts).tolist(), len(sizes)])
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def rows_at_risk(data: Chosen, steps: Steps) -> Chosen:
    """The steps of a dataset's rows, each with the features that end no row's steps."""
    store = RowsAtRisk(data, steps)
    names = (*store.features, *steps.names)
    plain = replace(data, maps=(), mapped_names=None, shares=(), reweigh=None)
    return replace(plain, store=store, columns=names, _typed=[], _counted=[])


def with_duration(data: Chosen, duration: str, event: str | None) -> Chosen:
    """The dataset with a column of durations among its features, and that of events as target."""
    if event is None:
        raise SourceError(
            "at_risk needs a column that says whether the event happened, or the row was lost: "
            "name it as event=, or open the dataset with it as target="
        )
    plain = not data.maps
    if duration not in (data.column_types if plain else data.feature_names):
        known = list(data.column_types) if plain else data.feature_names
        raise SourceError(f"no duration column {duration!r}; there are {some(known)}")
    if data.column_types.get(duration) in CATEGORIES:
        raise SourceError(
            f"the duration {duration!r} holds strings; make numbers of them, of one unit of time"
        )
    columns = data.columns
    if plain:  # of mapped columns only those that the maps were given can be told apart
        columns = tuple(name for name in columns if name != event)
        columns += () if duration in columns else (duration,)
    return replace(data, target=event, columns=columns)


def _check_below(data: Choice, steps: Steps) -> None:
    """Refuse rows that can not be read again in any slice, and columns that do not fit."""
    if isinstance(data.store.base, DaskStore) and data.categorical:
        raise SourceError(
            f"the columns {some(data.categorical)} of this {data.kind} hold strings, whose levels "
            "rows at risk of partitions cannot be counted for; give the levels before, by "
            "Dataset.with_levels, leave the columns out with features=, or write the rows first "
            "(Dataset.to_parquet)"
        )
    taken = [name for name in steps.names if name in (*data.columns, *data.feature_names)]
    if taken:
        raise SourceError(
            f"the columns {some(taken)} are there already; give the steps' columns other names"
        )
    kind = data.column_types[data.target] if data.target is not None else None
    if steps.is_ended and kind not in steps.targets:
        raise SourceError(
            f"the event {data.target!r} is {kind}; it is a number, 1 where it happened, else 0"
        )
