"""Fold: the computation of one read of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ..data.source import Chunk, Source

State = TypeVar("State")
Result = TypeVar("Result")


def identity(state: object) -> Any:
    return state


class RowState(NamedTuple):
    """Row-aligned state (dual variables, margins): `width` values of `dtype` for each physical row.

    Zero before the first pass that names it.  `step` finds it in ``chunk.state[name]``, shape
    (m, width), and may change it in place; the engine keeps the change as the next generation.
    """

    name: str
    dtype: str
    width: int
    writes: bool = True
    """Whether the pass may change this state."""


@dataclass(frozen=True)
class Fold(Generic[State, Result]):
    """A computation over all rows in one read.

    All four functions are picklable (module-level functions, `functools.partial` of them).  State
    holds sums; `finish` divides.  A state is a plain tree: dicts with str keys, lists, tuples,
    numpy arrays, str, int, float, bool, None.
    """

    start: Callable[[], State]
    """The identity of `merge`."""
    step: Callable[[State, Chunk], State]
    """The state with a chunk's rows.

    It owns its state and may update it in place; it must not keep references to the chunk's arrays.
    """
    merge: Callable[[State, State], State] | None = None
    """The state of both parts; None = the order of rows matters.

    It is associative and may update its first argument in place.  Of a sweep: the state of both
    partitions, each of which began at `start`.
    """
    finish: Callable[[State], Result] = identity
    """The answer, from the state of all rows."""
    rows: tuple[RowState, ...] = ()
    """Row-aligned states that `step` reads or writes."""
    stored: Callable[[State], object] | None = None
    """Part of a state that holds rows that a checkpoint keeps, for `step` to go on from.

    None: the state itself, a plain tree.  On a cluster a state that holds rows stays with its task.
    """
    close: Callable[[State], State] | None = None
    """In a sweep, the state when the last row of all, or of its partition, has been visited.

    It holds no rows any more: it is a plain tree, which `merge` takes.
    """


class Read(Protocol):
    """One read of all rows of a source, or of a column, such as `Run.fold`."""

    def __call__(self, fold: Fold[State, Result], source: Source, *, name: str) -> Result: ...


class Reads(Protocol):
    """Maker of reads of all rows: a `Run` of the engine."""

    def fold(
        self, fold: Fold[State, Result], source: Source | None = None, *, name: str
    ) -> Result: ...


def nbytes_of(state: object) -> int:
    """Bytes of a state's arrays, from their shapes: zeros that were never written count as well.

    A plan's `state_bytes` are those of what a fold starts with, so that the two cannot differ.
    """
    if isinstance(state, np.ndarray):
        return state.nbytes
    if isinstance(state, dict):
        return sum(map(nbytes_of, state.values()))
    if isinstance(state, list | tuple):
        return sum(map(nbytes_of, state))
    return 8


def both(*folds: Fold) -> Fold:
    """Several folds in one read; the result is the tuple of their results.

    They are mergeable together only if each is; row states must have different names, or be
    read-only.
    """
    names = [row.name for fold in folds for row in fold.rows if row.writes]
    if len(set(names)) < len(names):
        raise ValueError(f"two folds of one read write the same row state: {names}")
    mergeable = all(fold.merge is not None for fold in folds)
    return Fold(
        partial(_start_all, folds),
        partial(_step_all, folds),
        partial(_merge_all, folds) if mergeable else None,
        partial(_finish_all, folds),
        tuple(dict.fromkeys(row for fold in folds for row in fold.rows)),
    )


def _start_all(folds: tuple[Fold, ...]) -> tuple:
    return tuple(fold.start() for fold in folds)


def _step_all(folds: tuple[Fold, ...], states: tuple, chunk: Chunk) -> tuple:
    return tuple(fold.step(state, chunk) for fold, state in zip(folds, states, strict=True))


def _merge_all(folds: tuple[Fold, ...], a: tuple, b: tuple) -> tuple:
    return tuple(fold.merge(x, y) for fold, x, y in zip(folds, a, b, strict=True))  # type: ignore[misc]


def _finish_all(folds: tuple[Fold, ...], states: tuple) -> tuple:
    return tuple(fold.finish(state) for fold, state in zip(folds, states, strict=True))


def run_fold(fold: Fold[State, Result], chunks: Iterable[Chunk]) -> Result:
    """The law of a pass in four lines: what every engine must reproduce (without row state)."""
    state = fold.start()
    for chunk in chunks:
        state = fold.step(state, chunk)
    return fold.finish(state)


def read_all(source: Source) -> Iterable[Chunk]:
    """The chunks of a source in row order, one at a time."""
    with source.reader() as reader:
        for ref in source.refs():
            yield reader.read(ref)
