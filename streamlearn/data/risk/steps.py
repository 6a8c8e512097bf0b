"""Steps that rows enter one after the other, until an event or the end: of time, or of classes.

A row enters the first ``counts`` of the steps, and its event, if it has one, ends the last of them.
With a hazard in each step, the chance of all that one row shows is the product of the chances of
what each of its steps shows, so any loss whose rows are independent can be fitted to the steps:

    Intervals   intervals of time up to given cuts; Poisson's loss of these rows, with the time
                spent as exposure, is the piecewise-exponential likelihood (Holford 1980)
    Classes     ordered classes y = 0 .. K-1 pass steps 0 .. K-2 and stop at step y; the log-loss of
                these rows is that of the sequential, or continuation-ratio, model (Tutz 1991)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import SourceError
from ..column_types import CATEGORIES, NUMBERS, SINGLE
from ..levels import Coder, Word, word_of
from ..source import Chunk
from ..store import Column


class Entered(NamedTuple):
    """Steps that the rows of a chunk enter, and how they end."""

    counts: np.ndarray
    """(m,) int64: it enters the first so many steps."""
    ends: np.ndarray
    """(m,) bool: whether its event is in the last of them."""
    durations: np.ndarray
    """(m,) float64: how long it lasts; inf where no time ends it."""

    def take(self, index: np.ndarray) -> Entered:
        """The rows at these places."""
        return Entered(*(values[index] for values in self))


class Steps(ABC):
    """The steps that rows may enter, and the columns that say of a row which step it is."""

    n_steps: int
    columns: tuple[Column, ...]
    """Types of the columns that tell of a row at risk which step it is."""
    reads: tuple[str, ...] = ()
    """Features that say how far a row comes, and that it does not keep."""
    targets: tuple[str, ...] = NUMBERS
    """Types of the columns that may say what ends a row's steps."""
    is_ended: bool
    """Whether something ends a row's steps; else every row enters all of them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the steps' own columns."""
        return tuple(column.name for column in self.columns)

    @abstractmethod
    def enter(self, chunk: Chunk) -> Entered:
        """Find how far the rows of a chunk come; its last features are those that `reads` names."""

    @abstractmethod
    def values(self, name: str, step: np.ndarray, durations: np.ndarray) -> np.ndarray:
        """One of the steps' own columns, of rows at risk that last so long."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """Identity of the steps, as JSON values."""


class Intervals(Steps):
    """Intervals of time, (0, cuts[0]], (cuts[0], cuts[1]], ...; time after the last is not seen.

    An event at a cut belongs to the interval that it ends, and a row that is lost at a cut was at
    risk up to it: of ties, events come first.
    """

    def __init__(
        self,
        cuts: Sequence[float],
        interval: str,
        exposure: str,
        duration: str | None = None,
        kind: str = "float64",
    ) -> None:
        """`duration`, stored as `kind`: the column of times; None: every row enters all of them."""
        self.cuts = check_cuts(cuts)
        self.duration, self.reads = duration, (() if duration is None else (duration,))
        self.is_ended = duration is not None
        self.starts = np.append(0.0, self.cuts[:-1])
        self.n_steps = len(self.cuts)
        spent = "float32" if kind in SINGLE else "float64"  # as exact as the durations are
        self.columns = Column(interval, "float32"), Column(exposure, spent)

    def enter(self, chunk: Chunk) -> Entered:
        m = chunk.n_rows
        if self.duration is None:
            return Entered(
                np.full(m, self.n_steps, np.int64), np.zeros(m, bool), np.full(m, np.inf)
            )
        durations = np.array(chunk.dense[:, -1], np.float64)
        y = chunk.target
        event = y == 1
        counts = np.searchsorted(self.starts, durations, "left").astype(np.int64)
        lasts = np.isfinite(durations) & (durations >= 0)
        _refuse(
            chunk,
            counts,
            ~lasts,
            lambda row: (
                f"the duration {self.duration!r} is {durations[row]:g}; durations are at least 0 "
                "and not missing"
            ),
        )
        _refuse(
            chunk,
            counts,
            ~(event | (y == 0)),
            lambda row: f"the event is {y[row]!s}; it is 1 where it happened, else 0",
        )
        _refuse(
            chunk,
            counts,
            event & (durations == 0),
            lambda row: (
                f"the duration {self.duration!r} of an event is 0, so that the row was never at "
                "risk of it; give it the time by which it is known to have happened"
            ),
        )
        return Entered(counts, event & (durations <= self.cuts[-1]) & (counts > 0), durations)

    def values(self, name: str, step: np.ndarray, durations: np.ndarray) -> np.ndarray:
        if name == self.columns[0].name:
            return step
        spent = np.minimum(durations, self.cuts[step])
        spent -= self.starts[step]
        return spent

    def identity(self) -> dict[str, object]:
        return {"duration": self.duration, "cuts": self.cuts.tolist()}


class Classes(Steps):
    """Ordered classes: a row of class y enters the steps 0 .. y, and stops at step y.

    The last class has no step: its rows have passed all of them.
    """

    targets = (*NUMBERS, *CATEGORIES)

    def __init__(self, classes: Sequence[object], step: str, target: str | None = None) -> None:
        """`target`: the column of classes; None: every row enters all steps."""
        self.words = check_classes(classes)
        self.target, self.n_steps = target, len(self.words) - 1
        self.is_ended = target is not None
        self.columns = (Column(step, "float32"),)

    def enter(self, chunk: Chunk) -> Entered:
        m, last = chunk.n_rows, self.n_steps
        if self.target is None:
            full = np.full(m, last, np.int64)
            return Entered(full, np.zeros(m, bool), np.full(m, np.inf))
        y = chunk.target
        coder = Coder(self.target, self.words)
        if y.dtype == object:
            codes = coder.of_values(y)
        else:
            found, at = np.unique(y, return_inverse=True)
            codes = coder.of_values(found)[at]
        known = ~np.isnan(codes)
        counts = np.where(known, np.minimum(codes + 1, last), 0).astype(np.int64)
        _refuse(
            chunk,
            counts,
            ~known,
            lambda row: (
                f"the class {self.target!r} is {y[row]!r:.60}, which is none of the "
                f"{last + 1} classes {', '.join(self.words[:10])}"
            ),
        )
        return Entered(counts, codes < last, np.full(m, np.inf))

    def values(self, name: str, step: np.ndarray, durations: np.ndarray) -> np.ndarray:
        return step

    def identity(self) -> dict[str, object]:
        return {"classes": list(self.words), "of": self.target}


def check_cuts(cuts: Sequence[float]) -> np.ndarray:
    """(J,) float64 ends of intervals, which must ascend from above 0."""
    ends = np.array(cuts, np.float64)
    if ends.ndim != 1 or not len(ends):
        raise ValueError(
            f"cuts has shape {ends.shape}; pass the ends of the intervals of time, such as "
            "[1, 2, 5]"
        )
    rising = np.diff(ends, prepend=0.0) > 0
    if not (rising & np.isfinite(ends)).all():
        at = int((rising & np.isfinite(ends)).argmin())
        before = f"cuts[{at - 1}] = {ends[at - 1]:g}" if at else "0, where time starts"
        raise ValueError(
            f"cuts[{at}] = {ends[at]:g} does not come after {before}; pass finite ends of "
            "intervals that ascend (numpy.unique sorts them)"
        )
    return ends


def check_classes(classes: Sequence[object]) -> tuple[str, ...]:
    """The classes' names in their order; at least two, each once."""
    if isinstance(classes, str | int):
        raise ValueError(
            f"classes={classes!r} is no list; pass all classes in their order, such as "
            "['low', 'middle', 'high'] or range(5)"
        )
    given: list[Word] = list(classes)  # type: ignore[arg-type]
    words = [word_of(word, "classes") for word in given]
    names = tuple(word for word in words if word is not None)
    if len(set(names)) < max(len(words), 2):
        raise ValueError(
            f"classes={given[:10]!r} must be at least two classes, each named once and none "
            "missing, in their order"
        )
    return names


def _refuse(chunk: Chunk, counts: np.ndarray, bad: np.ndarray, say: Callable[[int], str]) -> None:
    """Refuse bad rows; those of weight 0, which are absent, enter no step (`counts`, in place)."""
    here = bad if chunk.weight is None else bad & (chunk.weight > 0)
    if here.any():
        row = int(here.argmax())
        raise SourceError(f"in row {chunk.rows[row]} {say(row)}")
    counts[bad] = 0
