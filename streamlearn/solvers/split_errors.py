"""Errors of cross-validation that name the split: its rows may lack what all rows have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..errors import LackError

TRAINS = "the rows outside it, which train"
JUDGES = "its own rows, which judge"
NO_ROWS = "no rows are left (of a weight above 0)"
MORE_ROWS = "fit more rows"


class Split(NamedTuple):
    """A split, as errors name it."""

    number: int
    """From 0."""
    cv: int
    seed: str = "random_state"
    """The parameter that deals the rows to the splits."""

    def lacks(self, which: str, lack: str, remedy: str = MORE_ROWS) -> LackError:
        """The error for rows of the split, `TRAINS` or `JUDGES`, of which `lack` is true."""
        fewer = "a smaller cv, " if self.cv > 2 else ""
        return LackError(
            f"split {self.number + 1} of cv={self.cv}: in {which}, {lack}",
            f"if all rows have what is asked for, use {fewer}another {self.seed} (it deals the "
            "rows to the splits), scikit-learn's cross_validate with its StratifiedKFold or KFold "
            "(they deal them evenly), or more rows" + ("" if remedy == MORE_ROWS else _or(remedy)),
        )

    @contextmanager
    def named(self, which: str) -> Iterator[None]:
        """Say of what is lacking that it lacks in these rows of the split, and note it on others.

        A parameter that is refused is refused in every split.
        """
        try:
            yield
        except LackError as error:
            raise self.lacks(which, error.lack, error.remedy) from error
        except ValueError as error:
            error.add_note(f"This was in split {self.number + 1} of cv={self.cv}, in {which}.")
            raise


def _or(remedy: str) -> str:
    return f"; if not, {remedy}"
