"""Reads around a selection: the first row states, the shortlist's features, and the residuals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from ..data.source import Chunk, Source
from ..engine.run import Run
from ..passes.fold import Fold, RowState, both
from ..passes.sums import add_sums
from .design import TARGET, Layout, rows_of
from .objective import margin_softmax, residual
from .selection.candidates import Choice, Kind

GRAM_ROWS = 1 << 13
"""Rows whose products are summed at a time."""

State = TypeVar("State")
Result = TypeVar("Result")


class Reader:
    """Reads of the wide data, each of some of the columns."""

    def __init__(self, run: Run, source: Source, names: Sequence[str]) -> None:
        self._run, self._source, self.names = run, source, tuple(names)
        self.full_reads = 0.0
        """Bytes read so far, divided by those of a read of all columns."""
        self.n_reads = 0
        self._before: Fold | None = None

    def resume(self, full_reads: float, n_reads: int) -> None:
        """Go on after a kill, when the fold that precedes the first read is done."""
        self.full_reads, self.n_reads, self._before = full_reads, n_reads, None

    def precede(self, fold: Fold) -> None:
        """Have the next read compute this fold too, before its own."""
        self._before = fold

    def __call__(
        self, fold: Fold[State, Result], columns: Sequence[int] | np.ndarray | None, name: str
    ) -> Result:
        """One read of these columns, or of all (None)."""
        self.full_reads += 1.0 if columns is None else self.cost(columns)
        self.n_reads += 1
        source, name = self.part(columns), f"{name}-{self.n_reads}"
        if self._before is None:
            return self._run.fold(fold, source, name=name)
        before, self._before = self._before, None
        result: Result = self._run.fold(both(before, fold), source, name=name)[1]
        return result

    def part(self, columns: Sequence[int] | np.ndarray | None) -> Source:
        """The source with these columns alone."""
        if columns is None or len(columns) == len(self.names):
            return self._source
        return self._source.with_columns([self.names[j] for j in columns])

    def cost(self, columns: Sequence[int] | np.ndarray) -> float:
        """Bytes of a read of these columns, divided by those of a read of all columns."""
        whole = self._source.stored_nbytes
        if not whole:
            return len(columns) / len(self.names)
        return self.part(columns).stored_nbytes / whole


Sums = dict[str, np.ndarray]


def start_fold(table: np.ndarray, total_weight: float, dtype: str) -> Fold[int, int]:
    """Fold that writes each row's class and share, and its residual, which depends on its class.

    Row k of `table` (K, K) holds the residuals, at the intercept alone, of a row of class k and
    share 1.
    """
    K = len(table)
    rows = (TARGET._replace(writes=True), RowState("residual", dtype, K))
    return Fold(int, partial(_write_start, table, total_weight), add_sums, rows=rows)


def _write_start(table: np.ndarray, total_weight: float, state: int, chunk: Chunk) -> int:
    share = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    target = chunk.state[TARGET.name]
    target[:, 0] = chunk.y
    target[:, 1] = share / total_weight
    chunk.state["residual"][:] = table[target[:, 0].astype(np.intp)] * target[:, 1:]
    return state


def fetch_fold(
    kind: Kind, needed: Sequence[int], choices: Sequence[Choice], state: RowState, total: float
) -> Fold[Sums, np.ndarray]:
    """Fold that writes what the side store holds of `choices`; its result is their correlations.

    It reads the columns `needed` alone.
    """
    return Fold(
        partial(_start_fetch, state.width),
        partial(_fetch, kind, tuple(needed), tuple(choices), state.name, total),
        add_sums,
        _correlations,
        (state,),
    )


def _start_fetch(width: int) -> Sums:
    return {"gram": np.zeros((width, width)), "sum": np.zeros(width)}


def _fetch(
    kind: Kind,
    needed: Sequence[int],
    choices: Sequence[Choice],
    name: str,
    total: float,
    state: Sums,
    chunk: Chunk,
) -> Sums:
    values = kind.values(chunk.of_few_columns(), needed, choices)
    chunk.state[name][:] = values
    for start in range(0, len(values), GRAM_ROWS):  # as float64 they are a few times larger
        V = values[start : start + GRAM_ROWS].astype(np.float64)
        share = np.full(len(V), 1.0)
        if chunk.weight is not None:
            share = chunk.weight[start : start + GRAM_ROWS]
        state["gram"] += (V * (share / total)[:, None]).T @ V
        state["sum"] += (share / total) @ V
    return state


def _correlations(state: Sums) -> np.ndarray:
    C = state["gram"] - np.outer(state["sum"], state["sum"])
    scale = np.sqrt(np.maximum(C.diagonal(), np.finfo(float).tiny))
    return C / np.outer(scale, scale)


def unlike(correlations: np.ndarray, n: int, same: float) -> list[int]:
    """The first n whose correlation with each one taken before is at most `same`."""
    taken: list[int] = []
    for j in range(len(correlations)):
        if len(taken) < n and (np.abs(correlations[j, taken]) <= same).all():
            taken.append(j)
    return taken


def base_fold(state: RowState) -> Fold[int, int]:
    """Fold that writes all columns of each row."""
    return Fold(int, partial(_write_base, state.name), add_sums, rows=(state,))


def _write_base(name: str, state: int, chunk: Chunk) -> int:
    chunk.state[name][:] = chunk.dense
    return state


def copy_fold(name: str, columns: Sequence[int], to: str) -> Fold[int, int]:
    """Fold that copies columns of one row state to another."""
    return Fold(int, partial(_copy, name, list(columns), to), add_sums)


def _copy(name: str, columns: list[int], to: str, state: int, chunk: Chunk) -> int:
    chunk.state[to][:] = chunk.state[name][:, columns]
    return state


def residual_fold(layout: Layout, theta: np.ndarray) -> Fold[Sums, float]:
    """Fold that writes the residuals at theta; its result is the distance that rho has moved.

    The distance from where the residuals were last written is sqrt(sum_i share_i |rho'_i -
    rho_i|_1^2).
    """
    return Fold(_no_move, partial(_write_residual, layout, theta), add_sums, _moved)


def _no_move() -> Sums:
    return {"square": np.zeros(1)}


def _write_residual(layout: Layout, theta: np.ndarray, state: Sums, chunk: Chunk) -> Sums:
    rows = rows_of(layout, chunk)
    old = chunk.state["residual"]
    new = np.zeros(old.shape)
    new[rows.keep] = residual(rows.design.forward(theta), rows.codes, rows.share)
    moved = np.abs(new[rows.keep] - old[rows.keep]).sum(axis=1)
    state["square"] += (moved**2 / rows.share).sum()
    old[:] = new
    return state


def _moved(state: Sums) -> float:
    return float(np.sqrt(state["square"][0]))


def without_fold(
    layout: Layout, theta: np.ndarray, cuts: Sequence[tuple[int, int]]
) -> Fold[Sums, np.ndarray]:
    """Fold of the losses (n,) at theta without each of the runs of coefficients [start, stop)."""
    return Fold(
        partial(_start_without, len(cuts)),
        partial(_add_without, layout, theta, tuple(cuts)),
        add_sums,
        _losses,
    )


def _start_without(n: int) -> Sums:
    return {"loss": np.zeros(n)}


def _add_without(
    layout: Layout, theta: np.ndarray, cuts: Sequence[tuple[int, int]], state: Sums, chunk: Chunk
) -> Sums:
    rows = rows_of(layout, chunk)
    if not len(rows.codes):
        return state
    Z = rows.design.forward(theta)
    for n, (start, stop) in enumerate(cuts):
        loss, _ = margin_softmax(Z - rows.design.part(theta, start, stop), rows.codes)
        state["loss"][n] += rows.share @ loss
    return state


def _losses(state: Sums) -> np.ndarray:
    return state["loss"]
