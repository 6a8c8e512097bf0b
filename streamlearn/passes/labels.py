"""The target: classes and their counts, or a number's range and moments, in all and per ref.

Classes are counted up to `MAX_CLASSES` distinct labels; a numeric target with more keeps its
moments only (a regression), a string target with more is refused.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..data.source import Chunk
from ..errors import SourceError
from .kernels_moments import merge_moments

MAX_CLASSES = 1000
BIAS_RATIO = 5.0
NO_ROW = np.iinfo(np.int64).max

State = dict[str, Any]
_SUMS = ("weight", "mean", "scatter")


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
    """What the summary knows of the target; counts are sums of weights."""

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
    """Of a numeric target, dividing by the weight; NaN for strings."""
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


def empty_labels() -> State:
    """The state of no rows; its dtype is that of the first labels it meets."""
    return {
        "kind": "",
        "dtype": "",
        "many": False,
        "classes": np.empty(0),
        "refs": np.empty(0, np.int64),
        "counts": np.zeros((0, 0)),
        **{name: np.empty(0) for name in _SUMS},
        "low": np.inf,
        "high": -np.inf,
        "missing": 0.0,
        "infinite": 0.0,
        "bad_row": int(NO_ROW),
    }


def add_labels(state: State, chunk: Chunk, starts: np.ndarray, name: str) -> State:
    """The state with the chunk's labels; `starts` are the first rows of the refs."""
    y = chunk.y
    if y is None or not len(y):
        return state
    rows = chunk.rows
    at = np.searchsorted(starts, (rows[0], rows[-1]), "right") - 1
    if at[0] == at[1]:
        cuts = np.array([0, len(y)])
    else:
        inner = np.searchsorted(rows, starts[at[0] + 1 : at[1] + 1])
        cuts = np.concatenate([[0], inner, [len(y)]])
    for k, ref in enumerate(range(at[0], at[1] + 1)):
        part = slice(int(cuts[k]), int(cuts[k + 1]))
        if part.start < part.stop:
            weight = None if chunk.weight is None else chunk.weight[part]
            state = merge_labels(state, _facts(state, y[part], weight, rows[part], ref, name))
    return state


def merge_labels(a: State, b: State) -> State:
    """The state of both parts."""
    if not b["kind"] or not a["kind"]:
        return a if a["kind"] else b
    if a["kind"] != b["kind"]:
        raise SourceError(
            "the target is a number in some rows and a string in others; "
            "store one type in all files"
        )
    refs = a["refs"] if np.array_equal(a["refs"], b["refs"]) else np.union1d(a["refs"], b["refs"])
    many = a["many"] or b["many"]
    classes = a["classes"]
    if not np.array_equal(classes, b["classes"]):
        classes = np.union1d(classes, b["classes"])
        many = many or len(classes) > MAX_CLASSES
    if many:
        classes = classes[:0]
    counts = np.zeros((len(refs), len(classes)))
    sums = [np.zeros(len(refs)) for _ in _SUMS]
    for s in (a, b):
        where = np.searchsorted(refs, s["refs"])
        if not many:
            counts[np.ix_(where, np.searchsorted(classes, s["classes"]))] += s["counts"]
        both = merge_moments(*(x[where] for x in sums), *(s[name] for name in _SUMS))
        for x, value in zip(sums, both, strict=True):
            x[where] = value
    dtype = a["dtype"] if a["kind"] == "string" else np.result_type(a["dtype"], b["dtype"]).str
    return {
        "kind": a["kind"],
        "dtype": dtype,
        "many": many,
        "classes": classes,
        "refs": refs,
        "counts": counts,
        **dict(zip(_SUMS, sums, strict=True)),
        "low": min(a["low"], b["low"]),
        "high": max(a["high"], b["high"]),
        "missing": a["missing"] + b["missing"],
        "infinite": a["infinite"] + b["infinite"],
        "bad_row": min(a["bad_row"], b["bad_row"]),
    }


def finish_labels(state: State, name: str, n_refs: int) -> Labels:
    """The answer from the sums."""
    if state["kind"] == "string" and state["many"]:
        raise SourceError(
            f"target {name!r} has more than {MAX_CLASSES} different strings; "
            "a class label takes few values: choose another column or merge classes"
        )
    sums = np.stack([state[key] for key in _SUMS])
    total, mean, scatter = 0.0, 0.0, 0.0
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


def _facts(
    state: State, y: np.ndarray, weight: np.ndarray | None, rows: Any, ref: int, name: str
) -> State:
    """The state of the labels of one ref alone."""
    if y.dtype.kind in "biuf":
        if weight is None and len(y) and y.dtype.kind in "iu":
            low, high = int(y.min()), int(y.max())
            if high - low < MAX_CLASSES and max(-low, high) <= 1 << 53:
                return _class_facts(y, low, ref)
        return _number_facts(state, y, weight, rows, ref, name)
    return _string_facts(y.tolist(), weight, rows, ref, name)


def _string_facts(
    labels: list[Any], weight: np.ndarray | None, rows: Any, ref: int, name: str
) -> State:
    if weight is None:
        found: dict[Any, float] = dict(Counter(labels))
    else:
        found = {}
        for label, w in zip(labels, weight.tolist(), strict=True):
            if w > 0:
                found[label] = found.get(label, 0.0) + w
    missing = float(found.pop(None, 0.0))
    bad_row = NO_ROW
    if missing:
        lost = (k for k, v in enumerate(labels) if v is None and (weight is None or weight[k] > 0))
        bad_row = rows[next(lost)]
    for odd in found:
        if not isinstance(odd, str):
            raise SourceError(
                f"target {name!r} holds {odd!r} of type {type(odd).__name__}; "
                "expected numbers, booleans or strings"
            )
    classes = sorted(found)
    many = len(classes) > MAX_CLASSES
    counts = np.array([found[label] for label in classes], np.float64)
    return {
        **empty_labels(),
        "kind": "string",
        "dtype": "object",
        "many": many,
        # numpy's own strings: an array of objects is no plain tree
        "classes": np.array(classes[:0] if many else classes, str),
        "refs": np.array([ref]),
        "counts": counts[None, :0] if many else counts[None, :],
        "weight": np.array([counts.sum()]),
        "mean": np.zeros(1),
        "scatter": np.zeros(1),
        "missing": missing,
        "bad_row": int(bad_row),
    }


def _class_facts(y: np.ndarray, low: int, ref: int) -> State:
    """Of whole numbers that lie close together: from how often each is met."""
    met = np.bincount(y.astype(np.intp) - low)
    steps = np.flatnonzero(met)
    counts, classes = met[steps].astype(np.float64), (low + steps).astype(np.float64)
    mean = np.einsum("i,i", classes, counts) / len(y)
    return {
        **empty_labels(),
        "kind": "number",
        "dtype": y.dtype.str,
        "classes": classes,
        "refs": np.array([ref]),
        "counts": counts[None, :],
        "weight": np.array([float(len(y))]),
        "mean": np.array([mean]),
        "scatter": np.array([np.einsum("i,i", (classes - mean) ** 2, counts)]),
        "low": float(classes[0]),
        "high": float(classes[-1]),
    }


def _number_facts(
    state: State, y: np.ndarray, weight: np.ndarray | None, rows: Any, ref: int, name: str
) -> State:
    values = y.astype(np.float64)
    if y.dtype.kind in "iu" and y.dtype.itemsize == 8 and np.any(values.astype(y.dtype) != y):
        raise SourceError(
            f"target {name!r} holds integers beyond 2**53, which have no exact float64; "
            "store it as strings if it is a label"
        )
    if weight is None:
        weight = np.ones(len(values))
    finite, infinite = np.isfinite(values), np.isinf(values)
    present = weight > 0
    bad = ~finite & present
    good = finite & present
    if not good.all():
        lost, endless = weight[bad & ~infinite].sum(), weight[bad & infinite].sum()
        values, kept = values[good], weight[good]
    else:
        lost, endless, kept = 0.0, 0.0, weight
    total = kept.sum()
    # Not by BLAS, whose threads would change the bits of a summary outside of a fit.
    mean = np.einsum("i,i", values, kept) / total if len(values) else 0.0
    many = state["many"]
    classes, counts = np.empty(0), np.zeros((1, 0))
    if not many:
        classes, counts = _count_classes(state["classes"], values, kept)
        many = len(classes) > MAX_CLASSES
    return {
        **empty_labels(),
        "kind": "number",
        "dtype": y.dtype.str,
        "many": many,
        "classes": classes[:0] if many else classes,
        "refs": np.array([ref]),
        "counts": counts[:, :0] if many else counts,
        "weight": np.array([total]),
        "mean": np.array([mean]),
        "scatter": np.array([np.einsum("i,i", (values - mean) ** 2, kept)]),
        "low": float(values.min(initial=np.inf)),
        "high": float(values.max(initial=-np.inf)),
        "missing": float(lost),
        "infinite": float(endless),
        "bad_row": int(rows[int(np.argmax(bad))]) if bad.any() else int(NO_ROW),
    }


def _count_classes(
    known: np.ndarray, values: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sorted classes, `known` ones and new ones, and their (1, K) weights."""
    classes = known if known.dtype.kind == "f" else np.empty(0)
    codes = _find(classes, values)
    if not len(classes) or np.any(classes[codes] != values):
        fresh = values if not len(classes) else values[classes[codes] != values]
        classes = np.union1d(classes, fresh)
        codes = _find(classes, values)
    return classes, np.bincount(codes, weight, len(classes))[None, :]


def _find(classes: np.ndarray, values: np.ndarray) -> np.ndarray:
    if not len(classes):
        return np.zeros(len(values), np.intp)
    return np.minimum(np.searchsorted(classes, values), len(classes) - 1)
