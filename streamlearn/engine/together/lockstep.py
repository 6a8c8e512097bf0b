"""Lockstep: several fits to parts of one table take turns, and one read serves all that wait.

Each fit is ordinary Python in a thread of its own, but only one of them runs at a time, in the
order in which they were given.  A fit runs until it asks its `Run` for a read that others can
share, and waits.  When all wait, one read of the table serves all that ask for the same chunks
(`lane_read`), and they go on.  So k fits take as many reads of the table as the longest of them,
not the sum; the bits are those of fits one after the other.

What is not shared, each fit reads by itself when it is its turn: sweeps in random order, rows that
it keeps in memory or in scratch, columns that only it chose, words whose codes are its own.

Memory.  Every fit has its own plan, by the whole budget, since plans decide bits.  A fit may begin,
or go on by a larger plan, when what all of them hold between reads and what one holds besides in
its own reads are within the budget; else it waits until another has ended.  Where all wait so, the
first goes on and the others start anew after it.  A shared read has the states of as many fits as
the budget holds, and the others wait for the next.

An error of a fit is raised when those before it have ended, as it would be by fits one after the
other.  A shared read that fails is done again by each of its fits alone, which says whose rows were
at fault.
"""

from __future__ import annotations

import contextvars
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil, log2
from time import monotonic
from typing import Any, Generic, TypeVar

import sklearn

from ...config import config_context, get_config
from ..checkpoint.stopping import orderly_end
from ..executor import find_client
from ..lanes import LaneState
from ..memory import available_bytes
from ..plan import Plan
from ..planning import RESERVE_BYTES
from .lane_read import LaneRead, read_alone, read_together

Value = TypeVar("Value")

BETWEEN_READS = ("driver", "model", "cached rows", "chosen rows", "carried rows")
"""Terms of a plan that a fit holds while others read."""


class _GivenUp(BaseException):
    """A fit is ended by the others; never reaches the user."""


class Turn(Generic[Value]):
    """One fit of a lockstep, as its thread and the coordinator see it."""

    def __init__(self, function: Callable[[], Value]) -> None:
        self.function = function
        self.ready = True
        self.given_up = False
        self.ended = False
        self.result: Value | None = None
        self.error: BaseException | None = None
        self.asked: LaneRead | None = None
        """The read it waits for."""
        self.answer: LaneState | None = None
        """The state of that read, if it was shared."""
        self.served = False
        """Whether that read was made for another fit."""
        self.n_served = 0
        self.waited_s = 0.0
        """Seconds in which others ran."""
        self.plans: dict[object, Plan] = {}
        """Plans of its runs that are open."""
        self.wanted: tuple[object, Plan] | None = None
        """The plan it waits to go by."""
        self._go = threading.Semaphore(0)
        self._came_back = threading.Semaphore(0)

    # In the coordinator.

    def go(self) -> None:
        """Let it run until it waits or has ended."""
        self.ready = False
        self._go.release()
        self._came_back.acquire()

    def begin(self) -> None:
        """Make its thread, which waits for its first turn."""
        run, settings = contextvars.copy_context().run, sklearn.get_config()
        threading.Thread(target=run, args=(self._run, settings), daemon=True).start()

    def give_up(self) -> None:
        """End it, wherever it waits."""
        self.given_up = True
        while not self.ended:
            self.go()

    @property
    def held_bytes(self) -> int:
        """Bytes that it holds while others read."""
        return sum(map(held_bytes, self.plans.values()))

    # In its thread.

    def _run(self, settings: dict[str, object]) -> None:
        self._go.acquire()
        token = _TURN.set(self)
        try:
            self.check()
            with sklearn.config_context(**settings):
                self.result = self.function()
        except BaseException as error:  # raised again by the coordinator
            self.error = error
        finally:
            _TURN.reset(token)
            self.ended = True
            self._came_back.release()

    def _wait(self) -> None:
        began = monotonic()
        self._came_back.release()
        self._go.acquire()
        self.waited_s += monotonic() - began
        self.check()

    def seconds(self) -> float:
        """A clock that stands while others run."""
        return monotonic() - self.waited_s

    def check(self) -> None:
        """Raise if the fit was given up."""
        if self.given_up:
            raise _GivenUp

    def read(self, read: LaneRead) -> LaneState | None:
        """The state of a read that was shared; None: it is to be done alone."""
        if read.made is None:
            return None
        self.asked = read
        self._wait()
        answer, self.asked, self.answer = self.answer, None, None
        return answer

    def was_served(self) -> bool:
        """Whether the read just done was made for another fit."""
        served, self.served = self.served, False
        self.n_served += served
        return served

    def go_by(self, run: object, plan: Plan) -> None:
        """Wait until the budget has room for this plan of a run."""
        self.wanted = run, plan
        self._wait()

    def closed(self, run: object) -> None:
        """A run has ended, and what its plan counts is free."""
        self.plans.pop(run, None)


_TURN: contextvars.ContextVar[Turn | None] = contextvars.ContextVar("turn", default=None)


def current_turn() -> Turn | None:
    """The turn of the fit whose thread this is; None outside a lockstep."""
    return _TURN.get()


def n_served() -> int:
    """Reads so far, of the fit whose thread this is, that one made for another fit served."""
    turn = current_turn()
    return 0 if turn is None else turn.n_served


def clock_of(turn: Turn | None) -> Callable[[], float]:
    """A clock for what a fit does itself."""
    return monotonic if turn is None else turn.seconds


class Lockstep:
    """Runs functions that fit or score parts of one table, within a budget in bytes."""

    def __init__(self, budget: int | None = None) -> None:
        self.budget = budget or get_config().memory_budget or available_bytes() // 4

    def run(self, functions: Sequence[Callable[[], Value]]) -> list[Value]:
        """The results of all functions; each must give the same when it is called again.

        Inside of another lockstep they run one after the other, and their reads are shared with
        those of the other's fits.
        """
        if current_turn() is not None or len(functions) == 1:
            return [function() for function in functions]
        results: dict[int, Value] = {}
        while len(results) < len(functions):
            left = [k for k in range(len(functions)) if k not in results]
            turns = [Turn(functions[k]) for k in left]
            with _settings(), orderly_end():
                self._run(turns)
            for k, turn in zip(left, turns, strict=True):
                if turn.error is not None and not isinstance(turn.error, _GivenUp):
                    raise turn.error
                if turn.error is None:
                    results[k] = turn.result  # type: ignore[assignment]
        return [results[k] for k in range(len(functions))]

    def _run(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            turn.begin()
        try:
            while alive := [turn for turn in turns if not turn.ended]:
                ready = next((turn for turn in alive if turn.ready), None)
                if ready is not None:
                    ready.go()
                    if ready.error is not None:
                        for later in turns[turns.index(ready) + 1 :]:
                            later.give_up()
                elif not self._admit(alive):
                    self._serve([turn for turn in alive if turn.asked is not None])
        finally:
            for turn in turns:
                turn.give_up()

    # Memory.

    def _admit(self, alive: Sequence[Turn]) -> bool:
        """Let the first fit go on that waits for room and has it; whether there was one."""
        waiting = [turn for turn in alive if turn.wanted is not None]
        if not waiting:
            return False
        room = next((turn for turn in waiting if self._has_room(turn, alive)), None)
        if room is None and len(waiting) < len(alive):
            return False
        if room is None:
            room = waiting[0]
            for other in alive:
                if other is not room and other.plans:
                    other.give_up()
        assert room.wanted is not None
        run, plan = room.wanted
        room.plans[run], room.wanted, room.ready = plan, None, True
        return True

    def _has_room(self, turn: Turn, alive: Sequence[Turn]) -> bool:
        assert turn.wanted is not None
        run, plan = turn.wanted
        plans = [p for other in alive for r, p in other.plans.items() if r is not run]
        if not plans:
            return True
        plans.append(plan)
        besides = max(p.peak_bytes - held_bytes(p) for p in plans)
        return sum(map(held_bytes, plans)) + besides <= self.budget

    # Reads.

    def _serve(self, turns: Sequence[Turn]) -> None:
        """Do the reads that all fits wait for, each for as many of them as can share it."""
        left = list(turns)
        while left:
            first = left[0]
            group = [turn for turn in left if turn is first or first.asked.shares_with(turn.asked)]
            n, at_once = self._how_many(group, turns)
            group = group[:n]
            if n > 1:
                began = monotonic()
                try:
                    answers = read_together([turn.asked for turn in group], at_once)
                except Exception:  # whose error it is, and where, each fit finds by itself
                    answers = []
                for turn, answer in zip(group, answers, strict=False):
                    turn.answer, turn.served = answer, turn is not first
                first.waited_s -= monotonic() - began
            for turn in group:
                turn.ready = True
            left = [turn for turn in left if turn not in group]

    def _how_many(self, group: Sequence[Turn], turns: Sequence[Turn]) -> tuple[int, int]:
        """Number of fits whose states one read can hold, and its lanes at once."""
        held = sum(turn.held_bytes for turn in turns)
        plans = [turn.asked.plan for turn in group if turn.asked is not None]
        for n in range(len(group), 1, -1):
            for at_once in range(min(plan.lanes_in_flight for plan in plans), 0, -1):
                if held + together_bytes(plans[:n], at_once) <= self.budget:
                    return n, at_once
        return 1, 1


@contextmanager
def _settings() -> Iterator[None]:
    """The settings of the calling thread, for threads that have their own.

    Inside of a task of a cluster, only its own thread knows that it is there.
    """
    import dask

    client, scheduler = find_client(get_config().scheduler), get_config().scheduler
    if client is None and scheduler in (None, "distributed"):
        scheduler = dask.config.get("scheduler", None) or "threads"
    with config_context(scheduler=client or scheduler), warnings.catch_warnings():
        yield


def held_bytes(plan: Plan) -> int:
    """Bytes that a fit of this plan holds between its reads, at most."""
    return max(
        sum(term.total_bytes for term in terms if term.label in BETWEEN_READS)
        for _, terms in plan.terms
    )


def together_bytes(plans: Sequence[Plan], at_once: int) -> int:
    """Bytes that a read for fits of these plans takes beside what they hold between reads."""

    def most(plan: Plan, label: str) -> int:
        every = [term for _, terms in plan.terms for term in terms if term.label == label]
        return max((term.each_bytes for term in every), default=0)

    depth = ceil(log2(max(plans[0].n_lanes, 1))) + 1
    states = sum(most(plan, "state") for plan in plans) * (at_once + depth)
    # the table's chunk, and one fit's at a time, which its step is given
    chunks = at_once * max(2 * most(plan, "slice") + most(plan, "step") for plan in plans)
    fixed = max(most(plan, "file metadata") + most(plan, "scratch in memory") for plan in plans)
    return states + chunks + fixed + RESERVE_BYTES


def read_lanes(read: LaneRead, at_once: int) -> LaneState:
    """The merged state of a read in lanes: shared with other fits of a lockstep, or alone."""
    turn = current_turn()
    answer = None if turn is None else turn.read(read)
    return read_alone(read, at_once) if answer is None else answer
