"""An endless stream: rows that wait to be learned from, and first rows that are learned from again.

Steps of the online EM from clusters, where no expert says anything yet, stop far from where a fit
does, whatever their size: of 20,000 rows in and around a circle they end with 85 % right, where a
fit has 98.  A fit begins by EM on a sample in memory, and so does a stream: its first rows are
held, and each time that they have doubled EM runs over all of them, from where the steps are.  Then
the steps go on as they do after a fit.  Where EM runs depends on the number of rows alone, not on
how they were cut into calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ...data.source import Chunk
from ...estimator.rows.streams import ClassOrder
from ...passes.fold import Fold
from ...passes.shuffling import Waiting, joined, let_all_go, nobody_waits, pass_through
from ..objective import Parameters, Problem
from .iteration import State
from .online import Online, advance, after_em

FIRST_EM = 2048
"""Number of rows over which EM runs first: with few it settles where more would not."""

Em = Callable[[Problem, Parameters, Chunk], State]
"""EM over rows in memory, from parameters."""


class Streamed(NamedTuple):
    """State of a stream together with its rows in memory."""

    problem: Problem
    state: Online
    waiting: Waiting
    """Rows in memory that nothing was learned from yet."""
    held: Waiting
    """First rows, learned from already; `n_left` counts the runs of EM over them."""
    order: ClassOrder
    """Spread of the classes over the rows that have waited, as they were learned from."""


def stream_fold(at: Streamed, em: Em, seed: int) -> Fold[Streamed, Streamed]:
    """Order-sensitive fold of a call of `partial_fit`, whose rows may wait before they teach."""
    begin = at._replace(state=at.state._replace(log_likelihood=0.0, n_read=0.0))
    return Fold(partial(Streamed, *begin), partial(_go_on, em, seed), None)


def _go_on(em: Em, seed: int, at: Streamed, chunk: Chunk) -> Streamed:
    if not at.waiting.n_most:
        return _learn(em, at, chunk)
    waiting, left = pass_through(at.waiting, chunk, seed)
    return _after(em, at._replace(waiting=waiting), left)


def let_all_go_on(at: Streamed, em: Em, seed: int) -> Streamed:
    """Learn from all rows that wait."""
    waiting, rows = let_all_go(at.waiting, seed)
    return _after(em, at._replace(waiting=waiting), [rows] if rows.n_rows else [])


def _after(em: Em, at: Streamed, left: list[Chunk]) -> Streamed:
    for rows in left:
        at = _learn(em, at, rows)
        codes = rows.target.astype(np.intp)
        counts = np.bincount(codes, rows.weight, len(at.order.counts))
        at = at._replace(order=at.order.with_part(counts))
    return at


def _learn(em: Em, at: Streamed, chunk: Chunk) -> Streamed:
    """The stream after the chunk's rows, of which those of no weight are absent."""
    if chunk.weight is not None:
        chunk = chunk.where(chunk.weight > 0)
    first = 0
    while first < chunk.n_rows:
        last = chunk.n_rows
        if at.held.n_most:
            last = min(last, first + _next_em(at.held) - at.held.n_rows)
        part = chunk.part(first, last)
        at = at._replace(state=advance(at.problem, 0.0, at.state, part))
        if at.held.n_most:
            at = at._replace(held=joined(at.held, part))
            if at.held.n_rows == _next_em(at.held):
                at = _again(em, at)
        first = last
    return at


def _next_em(held: Waiting) -> int:
    """Number of held rows over which EM runs next."""
    return min(FIRST_EM << held.n_left, held.n_most)


def _again(em: Em, at: Streamed) -> Streamed:
    """The stream after EM over its held rows, which nobody needs any more once they are all."""
    held = at.held
    rows = Chunk(held.X, held.y, held.weight, range(held.n_rows))
    # how many components the rows suffice for, the call's end says
    found = em(at.problem._replace(nu=0.0), at.state.average, rows)
    problem = found.problem._replace(nu=at.problem.nu)
    state = after_em(problem, at.state, found.point, rows)
    held = held._replace(n_left=held.n_left + 1)
    if held.n_rows == held.n_most:
        held = nobody_waits(held.X.shape[1], sparse=not isinstance(held.X, np.ndarray), n_most=0)
    return at._replace(problem=problem, state=state, held=held)
