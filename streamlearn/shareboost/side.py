"""The side store: the selected features of every row, apart from the wide data.

On disk they are row state, a new one for every read that fetched some; a copy stays in memory where
the plan has room.  Both give the same bits, because the same rows are read at a time, in the same
lanes, and merged in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from ..data.row_ranges import Ref, Refs
from ..data.source import Chunk, Made, Source
from ..engine.lanes import MergeTree, cut_lanes
from ..engine.run import Run
from ..engine.scratch.row_state import RowAccess, RowFile
from ..passes.fold import Fold, RowState
from .design import BASE, CACHED, TARGET, Layout, stored_columns

State = TypeVar("State")
Result = TypeVar("Result")


class ReadSide(Protocol):
    """One read of the side store: `Side.fold`."""

    def __call__(self, fold: Fold[State, Result]) -> Result: ...


@dataclass(frozen=True)
class ThinSource(Source):
    """Row numbers without columns, for reads of row state alone."""

    n_rows: int
    rows_at_once: int
    """Number of rows in a chunk."""
    row_nbytes: int
    """Bytes of a row's state, by which lanes are cut."""

    def refs(self) -> Refs:
        starts = range(0, self.n_rows, self.rows_at_once)
        runs = ((a, min(a + self.rows_at_once, self.n_rows)) for a in starts)
        return Refs.of_runs(runs, self.row_nbytes)

    def reader(self) -> ThinReader:
        return ThinReader()

    def made_of(self) -> Made:
        return Made(self, _as_it_is)


def _as_it_is(chunk: Chunk, ref: Ref) -> Chunk:
    return chunk


class ThinReader:
    """Gives chunks without columns, to which the engine adds the row state."""

    def read(self, ref: Ref) -> Chunk:
        return Chunk(np.empty((ref.n_rows, 0), np.float32), rows=range(ref.start, ref.stop))

    def __enter__(self) -> ThinReader:
        return self

    def __exit__(self, *raised: object) -> None:
        pass


class Side:
    """The selected features of all rows, on disk and perhaps in memory."""

    def __init__(
        self, run: Run, source: ThinSource, layout: Layout, *, capacity: int, in_memory: bool
    ) -> None:
        self._run, self.source, self.layout = run, source, layout
        self._capacity, self._in_memory = capacity, in_memory
        self._chunks: list[Chunk] = []
        self.n_reads = 0

    def add(self, state: RowState, columns: Sequence[int]) -> None:
        """Select columns of a row state that a read has written."""
        reading = state._replace(writes=False)
        states = self.layout.states
        if reading not in states:
            states = (*states, reading)
        picks = self.layout.picks + tuple((state.name, int(j)) for j in columns)
        self.layout = self.layout._replace(states=states, picks=picks)
        if self._chunks:
            self._fill(len(picks) - len(columns))

    def drop(self, pick: int) -> None:
        """Take one feature, or one piece, out again."""
        picks = self.layout.picks[:pick] + self.layout.picks[pick + 1 :]
        used = {TARGET.name, BASE, *(name for name, _ in picks)}
        states = tuple(state for state in self.layout.states if state.name in used)
        self.layout = self.layout._replace(states=states, picks=picks)
        at = pick + (0 if self.layout.n_base else 1)
        for chunk in self._chunks:
            later = chunk.state[CACHED][:, at + 1 : at + 1 + len(picks) - pick].copy()
            chunk.state[CACHED][:, at : at + len(picks) - pick] = later

    def fold(self, fold: Fold[State, Result]) -> Result:
        """One read of the side store that only sums."""
        self.n_reads += 1
        if not self._in_memory:
            fold = Fold(fold.start, fold.step, fold.merge, fold.finish, self.layout.states)
            return self._run.fold(fold, self.source, name=f"correct-{self.n_reads}")
        if not self._chunks:
            self._load()
        return fold_in_memory(
            fold, self.source.refs(), self._chunks, self._run.plan.lanes_in_flight
        )

    def read(self, fold: Fold[State, Result], more: Sequence[RowState], name: str) -> Result:
        """One read by the engine, which may write the row states `more`."""
        rows = (*self.layout.states, *more)
        whole = Fold(fold.start, fold.step, fold.merge, fold.finish, rows)
        return self._run.fold(whole, self.source, name=name)

    def _load(self) -> None:
        ones = 0 if self.layout.n_base else 1
        fixed = [s for s in self.layout.states if s.name in (TARGET.name, BASE)]
        files = [self._run.row_state(state.name) for state in fixed]
        with RowAccess(()) as access:
            for ref in self.source.refs():
                cached = np.empty(
                    (ref.n_rows, ones + self._capacity), self.layout.stored, order="F"
                )
                cached[:, :ones] = 1
                state = {f.name: access.read_span(f, ref.start, ref.stop) for f in files}
                state[CACHED] = cached
                rows = range(ref.start, ref.stop)
                self._chunks.append(Chunk(np.empty((ref.n_rows, 0)), rows=rows, state=state))
        self._fill(0)

    def _fill(self, first: int) -> None:
        """Copy the picks from number `first` on from disk to memory."""
        layout = self.layout._replace(picks=self.layout.picks[first:])
        ones = 0 if layout.n_base else 1
        names = dict.fromkeys(name for name, _ in layout.picks)
        files: list[RowFile] = [self._run.row_state(name) for name in names]
        with RowAccess(()) as access:
            for chunk, ref in zip(self._chunks, self.source.refs(), strict=True):
                state = {f.name: access.read_span(f, ref.start, ref.stop) for f in files}
                bare = Chunk(np.empty((ref.n_rows, 0)), rows=chunk.rows, state=state)
                at = ones + first
                added = stored_columns(layout, bare)[:, ones:]
                chunk.state[CACHED][:, at : at + len(layout.picks)] = added


def fold_in_memory(
    fold: Fold[State, Result], refs: Sequence[Ref], chunks: Sequence[Chunk], threads: int
) -> Result:
    """The result that the engine would have of these chunks: the same lanes, merged by one tree."""
    lanes, at = [], 0
    for lane in cut_lanes(refs):
        lanes.append(chunks[at : at + len(lane)])
        at += len(lane)
    if not lanes:
        return fold.finish(fold.start())
    if threads > 1 and len(lanes) > 1:
        with ThreadPoolExecutor(threads) as pool:
            states = list(pool.map(partial(_fold_lane, fold), lanes))
    else:
        states = [_fold_lane(fold, lane) for lane in lanes]
    tree = MergeTree(len(states))
    for width in tree.widths[:-1]:
        states = [
            fold.merge(states[i], states[i + 1]) if i + 1 < width else states[i]  # type: ignore[misc]
            for i in range(0, width, 2)
        ]
    return fold.finish(states[0])


def _fold_lane(fold: Fold[State, Result], chunks: Sequence[Chunk]) -> State:
    state = fold.start()
    for chunk in chunks:
        state = fold.step(state, chunk)
    return state
