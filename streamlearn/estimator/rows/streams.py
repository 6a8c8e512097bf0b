"""Messages about rows that are seen once: why an estimator cannot, and when they mislead."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import ClassVar, NamedTuple, NoReturn

import numpy as np

from ...engine.plan import Needs
from ...passes.fold import nbytes_of
from ...passes.shuffling import COPIES, Waiting, waiting_nbytes
from ...passes.summary.labels import BIAS_RATIO

FEW_PARTS = 20.0
"""Added to the ratio that is found out, divided by the parts less one: two parts of some hundred
rows in random order exceed it once in a million streams."""


class WithoutStream:
    """An estimator that has no `partial_fit`; who asks for it is told why."""

    _no_stream: ClassVar[str]
    """Reason, and what to do instead: it follows "<estimator> has no partial_fit: "."""

    @property
    def partial_fit(self) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} has no partial_fit: {self._no_stream}")


def with_waiting(learning: Needs, waiting: Waiting | None, n_most: int, row_nbytes: float) -> Needs:
    """The phase of a stream that learns, where `n_most` rows may wait; `waiting`: those that do.

    The rows that leave are as many as a chunk brings, and the call's first state stays to its end.
    """
    if not n_most:
        return learning
    most = waiting_nbytes(n_most, row_nbytes)
    return replace(
        learning,
        state_bytes=learning.state_bytes + most,
        step_bytes=learning.step_bytes + (COPIES - 2) * most,
        step_bytes_per_row=learning.step_bytes_per_row + row_nbytes + 16,
        model_bytes=learning.model_bytes + (0 if waiting is None else nbytes_of(waiting)),
    )


class ClassOrder(NamedTuple):
    """Spread of a stream's classes over its parts, without the parts themselves."""

    counts: np.ndarray
    """(K,) weight of each class."""
    squares: float = 0.0
    """Sum over parts and classes of weight^2 of the class / weight of the part."""
    n_parts: int = 0

    def with_part(self, counts: np.ndarray) -> ClassOrder:
        """The record with one more part, whose classes have the weights `counts` (K,)."""
        n = float(counts.sum())
        if not n > 0:
            return self
        squares = self.squares + float((counts**2).sum()) / n
        return ClassOrder(self.counts + counts, squares, self.n_parts + 1)

    @property
    def ratio(self) -> float:
        """Variance of the parts' class shares over what random order would give (about 1)."""
        n = float(self.counts.sum())
        if self.n_parts < 2 or not n > 0:
            return 0.0
        together = float((self.counts**2).sum()) / n
        within = 1.0 - together / n
        return (self.squares - together) / ((self.n_parts - 1) * within) if within > 0 else 0.0

    @property
    def is_sorted(self) -> bool:
        return self.ratio > BIAS_RATIO + FEW_PARTS / max(self.n_parts - 1, 1)


def warn_if_sorted(order: ClassOrder) -> None:
    """Say that a stream comes class by class: steps of one forget what those before learned."""
    if order.is_sorted:
        warnings.warn(
            f"the stream looks sorted by class: the class shares of its {order.n_parts} parts vary "
            f"{order.ratio:.3g} times as much as in random order, and what is learned of a class "
            "fades while others come; shuffle the rows before partial_fit, give it a larger "
            "shuffle_buffer=, or use fit",
            UserWarning,
            stacklevel=4,
        )


def warn_if_beyond(seen: float, promised: float) -> None:
    """Say that the rows weigh more than the first call of `partial_fit` promised."""
    if seen > promised * (1 + 1e-6):
        warnings.warn(
            f"partial_fit has seen rows of weight {seen:,.6g}, but n_rows={promised:,.6g} was "
            "promised in the first call: C counts on that number, so that the penalty is too large "
            "for what has come; begin anew with n_rows of the whole stream",
            UserWarning,
            stacklevel=4,
        )
