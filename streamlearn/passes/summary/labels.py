"""The target: classes and their counts, or a number's range and moments, in all and per ref."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...errors import SourceError
from .counts.kernels_moments import merge_moments
from .label_sums import MAX_CLASSES, MOMENTS, NO_ROW, State, unchecked

BIAS_RATIO = 5.0


class OrderBias(NamedTuple):
    """Whether rows are sorted by target, and how strongly; true in a condition if they are."""

    found: bool
    ratio: float
    """Variance of the refs' means over what random order would give (about 1)."""
    text: str

    def __bool__(self) -> bool:
        return self.found


@dataclass(frozen=True, eq=False)
class Labels:
    """Facts of the target from the summary; counts are sums of weights."""

    name: str
    kind: str
    """``number`` or ``string``."""
    dtype: str
    """numpy dtype of the labels as stored; ``object`` for strings (whose classes are numpy's)."""
    count: float
    """Weight of the rows with a finite (or string) target."""
    missing: float
    infinite: float
    first_bad: int | None
    """First physical row whose target is missing or infinite."""
    min: float
    max: float
    mean: float
    variance: float
    """Weighted variance of a numeric target, divided by the sum of weights; NaN for strings."""
    classes: np.ndarray | None
    """(K,) sorted labels; None if there are more than `MAX_CLASSES`."""
    refs: np.ndarray
    """(r,) numbers of the refs that hold rows."""
    n_refs: int
    by_ref: np.ndarray
    """(r, K) class counts of these refs; K = 0 without classes."""
    sums_by_ref: np.ndarray
    """(3, r) weight, mean and scatter of a numeric target in these refs."""

    @cached_property
    def counts(self) -> np.ndarray:
        """(K,) weight of each class."""
        return self.by_ref.sum(axis=0)

    @cached_property
    def ref_labels(self) -> np.ndarray:
        """(n_refs, K) weight of each class in each ref of the dataset that was summarised."""
        table = np.zeros((self.n_refs, self.by_ref.shape[1]))
        table[self.refs] = self.by_ref
        return table

    @cached_property
    def order_bias(self) -> OrderBias:
        """Recognises a file sorted by target: refs differ more than `BIAS_RATIO` x random order."""
        ratio = self._between_ratio()
        found = ratio > BIAS_RATIO
        what = "class shares" if self.classes is not None else "means of the target"
        text = (
            f"the {what} of the parts of the data vary {ratio:.3g} times as much as in random order"
            if found
            else ""
        )
        return OrderBias(found, ratio, text)

    def _between_ratio(self) -> float:
        if self.classes is not None:
            n = self.by_ref.sum(axis=1)
            full = n > 0
            n, table = n[full], self.by_ref[full]
            share = table.sum(axis=0) / max(n.sum(), 1e-300)
            within = (share * (1 - share)).sum()
            between = (n[:, None] * (table / n[:, None] - share) ** 2).sum()
        else:
            n, mean, _ = self.sums_by_ref
            within = self.variance
            between = (n * (mean - self.mean) ** 2).sum()
        r = np.count_nonzero(n)
        return float(between / ((r - 1) * within)) if r > 1 and within > 0 else 0.0


def finish_labels(state: State, name: str, n_refs: int) -> Labels:
    """The answer from the sums."""
    if state["kind"] == "string" and state["many"]:
        raise SourceError(
            f"target {name!r} has more than {MAX_CLASSES} different strings; "
            "a class label takes few values: choose another column or merge classes"
        )
    sums = np.stack([state[key] for key in MOMENTS])
    total, mean, scatter = (np.zeros(()) for _ in MOMENTS)
    with unchecked():
        for part in sums.T:
            total, mean, scatter = merge_moments(total, mean, scatter, *part)
    number = state["kind"] == "number" and total > 0
    classes = None if state["many"] else state["classes"]
    if number and classes is not None:
        classes = classes.astype(state["dtype"])
    bad_row = state["bad_row"]
    nan = float("nan")
    return Labels(
        name=name,
        kind=state["kind"] or "number",
        dtype=state["dtype"] or "float64",
        count=float(total),
        missing=float(state["missing"]),
        infinite=float(state["infinite"]),
        first_bad=None if bad_row == NO_ROW else int(bad_row),
        min=state["low"] if number else nan,
        max=state["high"] if number else nan,
        mean=float(mean) if number else nan,
        variance=float(scatter / total) if number else nan,
        classes=classes,
        refs=state["refs"],
        n_refs=n_refs,
        by_ref=state["counts"],
        sums_by_ref=sums,
    )
