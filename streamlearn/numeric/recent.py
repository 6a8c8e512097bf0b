"""Results kept for the arguments used last, told by identity: arrays have no cheap equality."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

KEPT = 4
"""Results of a function that are kept."""
MOST_COEFFICIENTS = 1 << 14
"""Coefficients of the largest subject whose results are kept: they take a few hundred KiB."""


class HasFirst(Protocol):
    """An immutable description of columns, by where their coefficients begin."""

    @property
    def first(self) -> np.ndarray:
        """(p + 1,) where each column's coefficients begin; last their number."""


Subject = TypeVar("Subject", bound=HasFirst)
More = ParamSpec("More")
Result = TypeVar("Result")


def kept_for_recent(
    make: Callable[Concatenate[Subject, More], Result],
) -> Callable[Concatenate[Subject, More], Result]:
    """`make(subject, *more)`, not made again for a subject of the last calls.

    A step on a few hundred rows takes less time than such a result.  A subject must not be changed
    in place, and what is returned neither.  Threads may call it: each sees all of a tuple.
    """
    kept: tuple[tuple[Subject, object, Result], ...] = ()

    @wraps(make)
    def found(subject: Subject, /, *more: More.args, **named: More.kwargs) -> Result:
        nonlocal kept
        for known, others, result in kept:
            if known is subject and others == (more, named):
                return result
        result = make(subject, *more, **named)
        if subject.first[-1] <= MOST_COEFFICIENTS:
            kept = ((subject, (more, named), result), *kept[: KEPT - 1])
        return result

    return found
