"""Checks of the fitted attributes of every family when they come from a file."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from sklearn.base import is_classifier

from ..data.encoding import Encoding
from ..engine.plan import Plan
from ..numeric.checks import check_array, check_integer, check_records
from ..solvers.calibration import Calibration
from .certificate import Certificate


class Fitted(TypedDict, total=False):
    """The fitted attributes of a model as a plain tree; what a file holds of it may be wrong."""

    feature_names: list[str] | None
    n_features: int
    state: object
    classes: np.ndarray | None
    levels: dict[str, list[str]] | None
    encoding: Encoding | None
    certificate: Certificate
    history: list[dict[str, object]]
    n_passes: int
    plan: Plan | None
    calibration: Calibration | None


_KINDS: dict[str, type] = {
    "levels": dict,
    "encoding": Encoding,
    "certificate": Certificate,
    "history": list,
    "n_passes": int,
    "plan": Plan,
}
"""Types of the attributes that every fitted `StreamEstimator` has."""


def check_fitted(model: object, tree: Fitted) -> None:
    """Raise ValueError unless what every family has is of its kind."""
    names, n = tree["feature_names"], tree["n_features"]
    check_integer("n_features", n, 1, 2**31)
    if names is not None:
        check_records("feature_names", names, str)
        if len(names) != n:
            raise ValueError(f"feature_names has {len(names)} names for {n} columns")
    for name, kind in _KINDS.items():
        value = tree.get(name)
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"{name} is a {type(value).__name__}, expected {kind.__name__}")
        optional = name == "encoding"  # of models of one family, or written before there was one
        if value is None and not optional and hasattr(model, "_decision_chunk"):
            raise ValueError(f"{name} is missing")
    encoding = tree.get("encoding")
    if encoding is not None:
        encoding.check()
        if len(encoding.names) != n:
            raise ValueError(f"the encoding is of {len(encoding.names)} columns, not of {n}")
    for name, words in (tree.get("levels") or {}).items():
        check_records(f"levels of {name!r}", words, str)
    check_records("history", tree.get("history") or [], dict)
    classes = tree.get("classes")
    if is_classifier(model) or classes is not None:
        if not isinstance(classes, np.ndarray):
            raise ValueError(f"classes are a {type(classes).__name__}, expected an array")
        check_array("classes", classes, (None,), classes.dtype.str)
        if len(classes) < 2 or not (classes[:-1] < classes[1:]).all():
            raise ValueError(f"classes are not two or more, ascending: {classes[:5]}")
    calibration = tree.get("calibration")
    if calibration is not None:
        if not isinstance(calibration, Calibration) or classes is None:
            raise ValueError("calibration is not one, or of a model without classes")
        if len(calibration.scores) != (1 if len(classes) == 2 else len(classes)):
            raise ValueError(f"calibration has {len(calibration.scores)} curves")


def n_outputs(model: object) -> int:
    """Decisions that a fitted model has for a row."""
    return max(len(output_labels(model)), 1)


def output_labels(model: object) -> list[object]:
    """The labels of a fitted model's decisions, where a row has several: classes or quantiles."""
    classes: np.ndarray | None = getattr(model, "classes_", None)
    if classes is not None:
        return classes.tolist() if len(classes) > 2 else []
    return list(getattr(model, "_levels", ()))
