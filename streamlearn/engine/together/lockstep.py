"""Lockstep: several fits to parts of one table take turns, and one read serves all that wait.

Each fit is ordinary Python in a thread of its own, but only one of them runs at a time, in the
order in which they were given.  A fit runs until it asks its `Run` for a read that others can
share, and waits.  When all wait, one read of the table serves all that ask for the same chunks
(`lane_read`), and they go on.  So k fits take as many reads of the table as the longest of them,
not the sum; the bits are those of fits one after the other.

What is not shared, each fit reads by itself when it is its turn: sweeps in random order, rows that
it keeps in memory or in scratch, columns that only it chose, words whose codes are its own, and
rows at risk, which are made of the subjects of its split alone.

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
from time import monotonic
from typing import Generic, TypeVar

import sklearn

from ...config import config_context, get_config
from ...numeric.malloc import trim_heaps
from ..checkpoint.stopping import orderly_end
from ..executor import findable_anywhere
from ..lanes import LaneState
from ..memory import available_bytes
from ..plan import Plan
from .costs import held_bytes, together_bytes
from .lane_read import LaneRead, read_alone, read_together

Value = TypeVar("Value")


class _GivenUp(BaseException):
    """A fit is ended by the others; never reaches the user."""


class Turn(Generic[Value]):
    """One fit of a lockstep, as its thread and the coordinator see it."""

    def __init__(
        self, function: Callable[[], Value], lockstep: Lockstep, parent: Turn | None
    ) -> None:
        self.function, self.lockstep, self.parent = function, lockstep, parent
        self.inner: list[Turn] = []
        """Turns of functions that it runs, and waits for."""
        self._may_go = True
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

    @property
    def ready(self) -> bool:
        """True if it waits for nothing but its turn."""
        return self._may_go and all(turn.ended for turn in self.inner)

    def set_ready(self) -> None:
        """Say that what it waited for is there."""
        self._may_go = True

    def go(self) -> None:
        """Let it run until it waits or has ended."""
        self._may_go = False
        self._go.release()
        self._came_back.acquire()

    def begin(self) -> None:
        """Make its thread, which waits for its first turn."""
        run, settings = contextvars.copy_context().run, sklearn.get_config()
        threading.Thread(target=run, args=(self._run, settings), daemon=True).start()

    def give_up(self) -> None:
        """End it, wherever it waits."""
        for turn in self.inner:
            turn.give_up()
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
        except _GivenUp:
            self.error = _GivenUp()  # without the frames of the fit, which hold what it held
        except BaseException as error:  # raised again by the coordinator
            self.error = error
        finally:
            _TURN.reset(token)
            trim_heaps()
            self.ended = True
            self._came_back.release()

    def _wait(self) -> None:
        trim_heaps()  # what this thread has freed is in the way of the others
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

    def wait_for(self, turns: Sequence[Turn]) -> None:
        """Wait until these have ended."""
        self.inner, self._may_go = list(turns), True
        self._wait()
        self.inner = []

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
        self.peak_bytes = 0
        """Most that the plans of fits at a time allowed together."""
        self._turns: list[Turn] = []

    def run(
        self, functions: Sequence[Callable[[], Value]], unsaid: Sequence[str] = ()
    ) -> list[Value]:
        """The results of all functions; each must give the same when it is called again.

        Inside of a fit of another lockstep they take turns with all of that one's fits, within its
        budget.  `unsaid`: warnings to leave out, by how they begin; not inside of another.
        """
        parent = current_turn()
        if len(functions) == 1:
            return [function() for function in functions]
        results: dict[int, Value] = {}
        while len(results) < len(functions):
            left = [k for k in range(len(functions)) if k not in results]
            if parent is not None:
                turns = [Turn(functions[k], parent.lockstep, parent) for k in left]
                parent.lockstep._begin(turns)
                parent.wait_for(turns)
            else:
                turns = [Turn(functions[k], self, None) for k in left]
                with _settings(unsaid), orderly_end():
                    self._run(turns)
            for k, turn in zip(left, turns, strict=True):
                if turn.error is not None and not isinstance(turn.error, _GivenUp):
                    raise turn.error
                if turn.error is None:
                    results[k] = turn.result  # type: ignore[assignment]
        return [results[k] for k in range(len(functions))]

    def _begin(self, turns: Sequence[Turn]) -> None:
        self._turns += turns
        for turn in turns:
            turn.begin()

    def _run(self, turns: Sequence[Turn]) -> None:
        self._turns = []
        self._begin(turns)
        try:
            while alive := [turn for turn in self._turns if not turn.ended]:
                ready = next((turn for turn in alive if turn.ready), None)
                if ready is not None:
                    ready.go()
                    if ready.error is not None:
                        self._end_after(ready)
                    continue
                waiting = [turn for turn in alive if not turn.inner]
                if not self._admit(waiting):
                    self._serve(waiting)
        finally:
            for turn in turns:
                turn.give_up()

    def _end_after(self, failed: Turn) -> None:
        """Give up the fits that would have begun after one that failed."""
        for turn in self._turns[self._turns.index(failed) + 1 :]:
            if turn.parent is failed.parent:
                turn.give_up()

    # Memory.

    def _admit(self, alive: Sequence[Turn]) -> bool:
        """Let the first fit go on that waits for room and has it; whether there was one."""
        waiting = [turn for turn in alive if turn.wanted is not None]
        if not waiting:
            return False
        room = next(
            (turn for turn in waiting if self._bytes_with(turn, alive) <= self.budget), None
        )
        if room is None and len(waiting) < len(alive):
            return False
        if room is None:
            room = waiting[0]
            for other in alive:
                if other is not room and other.plans:
                    other.give_up()
        self.peak_bytes = max(self.peak_bytes, self._bytes_with(room, alive))
        assert room.wanted is not None
        run, plan = room.wanted
        room.plans[run], room.wanted = plan, None
        room.set_ready()
        return True

    def _bytes_with(self, turn: Turn, alive: Sequence[Turn]) -> int:
        """Bytes that all fits hold, and the one that reads besides, if this one goes on."""
        assert turn.wanted is not None
        run, plan = turn.wanted
        plans = [p for other in alive for r, p in other.plans.items() if r is not run]
        plans.append(plan)
        besides = max(p.peak_bytes - held_bytes(p) for p in plans)
        return sum(map(held_bytes, plans)) + besides

    # Reads.

    def _serve(self, turns: Sequence[Turn]) -> None:
        """Do the reads that fits wait for, each for as many of them as can share it."""
        held = sum(turn.held_bytes for turn in turns)
        left = [(turn, turn.asked) for turn in turns if turn.asked is not None]
        while left:
            first, read = left[0]
            group = [(turn, own) for turn, own in left if own is read or read.shares_with(own)]
            n, at_once = self._how_many([own for _, own in group], held)
            if n > 1:
                began = monotonic()
                try:
                    answers = read_together([own for _, own in group[:n]], at_once)
                except Exception:  # whose error it is, and where, each fit finds by itself
                    answers = []
                for (turn, _), answer in zip(group, answers, strict=False):
                    turn.answer, turn.served = answer, turn is not first
                first.waited_s -= monotonic() - began
            for turn, _ in group[:n]:
                turn.set_ready()
            left = [(turn, own) for turn, own in left if not turn.ready]

    def _how_many(self, reads: Sequence[LaneRead], held: int) -> tuple[int, int]:
        """Number of these reads whose states one can hold, and its lanes at once.

        `held`: by all fits between reads.
        """
        plans, chunk_bytes = [read.plan for read in reads], reads[0].chunk_bytes
        for n in range(len(plans), 1, -1):
            for at_once in range(min(plan.lanes_in_flight for plan in plans), 0, -1):
                together = held + together_bytes(plans[:n], at_once, chunk_bytes)
                if together <= self.budget:
                    self.peak_bytes = max(self.peak_bytes, together)
                    return n, at_once
        return 1, 1


@contextmanager
def _settings(unsaid: Sequence[str]) -> Iterator[None]:
    """The settings of the calling thread, for threads that have their own.

    Inside of a task of a cluster, only its own thread knows that it is there.
    """
    with (
        config_context(scheduler=findable_anywhere(get_config().scheduler)),
        warnings.catch_warnings(),
    ):
        for said in unsaid:
            warnings.filterwarnings("ignore", said, UserWarning)
        yield


def read_lanes(read: LaneRead, at_once: int) -> LaneState:
    """The merged state of a read in lanes: shared with other fits of a lockstep, or alone."""
    turn = current_turn()
    answer = None if turn is None else turn.read(read)
    return read_alone(read, at_once) if answer is None else answer
