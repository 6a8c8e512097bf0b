"""Sums of the target over a read, per ref: the weight of each class, or moments.

Classes are counted up to `MAX_CLASSES` distinct labels; a numeric target with more keeps its
moments only (a regression), a string target with more is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypedDict

import numpy as np

from ...data.source import Chunk
from ...errors import SourceError
from .counts.kernels_moments import merge_moments

MAX_CLASSES = 1000
NO_ROW = np.iinfo(np.int64).max
MOMENTS: tuple[Literal["weight"], Literal["mean"], Literal["scatter"]] = (
    "weight",
    "mean",
    "scatter",
)


class State(TypedDict):
    """Sums of the labels of the rows so far."""

    kind: str
    """``number``, ``string``, or empty without labels."""
    dtype: str
    many: bool
    """Whether there are more classes than are counted."""
    classes: np.ndarray
    refs: np.ndarray
    """(r,) numbers of the refs whose labels these are."""
    counts: np.ndarray
    """(r, K) weight of each class in each ref."""
    weight: np.ndarray
    """(r,) as mean and scatter: those of a numeric target in each ref."""
    mean: np.ndarray
    scatter: np.ndarray
    low: float
    high: float
    missing: float
    infinite: float
    bad_row: int


def empty_labels() -> State:
    """The state of no rows; its dtype is that of the first labels it meets."""
    return {
        "kind": "",
        "dtype": "",
        "many": False,
        "classes": np.empty(0),
        "refs": np.empty(0, np.int64),
        "counts": np.zeros((0, 0)),
        "weight": np.empty(0),
        "mean": np.empty(0),
        "scatter": np.empty(0),
        "low": np.inf,
        "high": -np.inf,
        "missing": 0.0,
        "infinite": 0.0,
        "bad_row": int(NO_ROW),
    }


def unchecked() -> np.errstate:
    """No warning of squares of targets of 1e200: who needs their variance looks at it."""
    return np.errstate(over="ignore", invalid="ignore")


def add_labels(state: State, chunk: Chunk, starts: np.ndarray, name: str) -> State:
    """The state with the chunk's labels; `starts` are the first rows of the refs."""
    y = chunk.y
    if y is None or not len(y):
        return state
    rows = chunk.numbers
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
    sums = [np.zeros(len(refs)) for _ in MOMENTS]
    for s in (a, b):
        where = np.searchsorted(refs, s["refs"])
        if not many:
            counts[np.ix_(where, np.searchsorted(classes, s["classes"]))] += s["counts"]
        with unchecked():
            both = merge_moments(*(x[where] for x in sums), *(s[name] for name in MOMENTS))
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
        "weight": sums[0],
        "mean": sums[1],
        "scatter": sums[2],
        "low": min(a["low"], b["low"]),
        "high": max(a["high"], b["high"]),
        "missing": a["missing"] + b["missing"],
        "infinite": a["infinite"] + b["infinite"],
        "bad_row": min(a["bad_row"], b["bad_row"]),
    }


def _facts(
    state: State, y: np.ndarray, weight: np.ndarray | None, rows: np.ndarray, ref: int, name: str
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
    labels: list[object], weight: np.ndarray | None, rows: np.ndarray, ref: int, name: str
) -> State:
    if weight is None:
        found = {label: float(n) for label, n in Counter(labels).items()}
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
    classes: list[str] = []
    for label in found:
        if not isinstance(label, str):
            raise SourceError(
                f"target {name!r} holds {label!r} of type {type(label).__name__}; "
                "expected numbers, booleans or strings"
            )
        classes.append(label)
    classes.sort()
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
    """The sums of whole numbers that lie close together, from how often each occurs."""
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
    state: State, y: np.ndarray, weight: np.ndarray | None, rows: np.ndarray, ref: int, name: str
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
    with unchecked():
        mean = np.einsum("i,i", values, kept) / total if len(values) else 0.0
        scatter = np.einsum("i,i", (values - mean) ** 2, kept)
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
        "scatter": np.array([scatter]),
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
