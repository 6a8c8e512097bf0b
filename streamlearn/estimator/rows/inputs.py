"""The user's rows as a `Dataset`; features by name where they have names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import validate_data

from ...data.column_types import NUMBERS, SINGLE
from ...data.dataset import Dataset
from ...data.memory.memory_map import mapped_files
from ...data.memory.opening import open_arrays
from ...data.open import dataset_of, open_dataset
from ..model import TakesRows
from .encoding import encoded
from .levels import as_trained
from .targets import check_kind

if TYPE_CHECKING:
    from ...data.dask.map import DaskCollection
    from ...data.memory.vectors import Frame

MAX_SHOWN = 5
SMALL = 1 << 20
"""Bytes of the float64 rows that are decided at once: what one chunk takes at least."""
PANDAS = ("pandas", "pandas.core.frame")
"""Modules that a pandas frame says it is from, by version."""


def is_dask(X: object) -> TypeGuard[DaskCollection]:
    """Whether X is a dask collection."""
    return getattr(X, "__dask_graph__", None) is not None and not isinstance(X, type)


def is_on_disk(X: object) -> bool:
    """Whether X is a path, or a list of paths."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(part, str | os.PathLike) for part in X)
    return isinstance(X, str | os.PathLike)


def open_training(model: TakesRows, X: object, y: object, sample_weight: object) -> Dataset:
    """The dataset to train on; sets ``n_features_in_`` and ``feature_names_in_``."""
    dataset = _open(model, X, y, sample_weight, reset=True)
    if dataset.target is None:
        raise ValueError(
            f"{type(model).__name__} requires y to be passed, but the target y is None; pass y, a "
            "column name as y, or a dataset opened with open_dataset(..., target=...)"
        )
    check_kind(model, dataset)
    _check_sparse(model, dataset)
    names = dataset.feature_names
    if dataset.is_named:
        model.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    model.n_features_in_ = len(names)
    return dataset


def open_data(X: object) -> Dataset:
    """Rows of any kind, with or without a target."""
    return X if isinstance(X, Dataset) else open_dataset(X)


def open_scored(model: TakesRows, X: object, y: object, sample_weight: object) -> Dataset:
    """The dataset to score a fitted model on: its features, a target, perhaps weights."""
    dataset = features_of(
        model, match_features(model, _open(model, X, y, sample_weight, reset=False))
    )
    if dataset.target is None:
        raise ValueError(
            "scoring needs the targets: pass y, a column name as y, or a dataset opened with "
            "open_dataset(..., target=...)"
        )
    check_kind(model, dataset)
    return dataset


def open_features(model: TakesRows, X: object) -> Dataset:
    """The rows of X with the features a fitted model decides by, and no other column."""
    dataset = features_of(model, match_features(model, _open(model, X, None, None, reset=False)))
    return replace(used_columns(model, dataset), target=None, weight=None)


def small_rows(model: TakesRows, X: object) -> np.ndarray | None:
    """The features of a small table of numbers that needs no dataset; None: `open_features` says.

    A numpy array, or a pandas frame with the columns of the training in their order, of at most
    `SMALL` bytes: to open a dataset of it takes ten times as long as to decide a row.
    """
    values: np.ndarray | Frame
    named = hasattr(model, "feature_names_in_")
    if type(X) is np.ndarray and not named:
        values, names = X, {X.dtype.name}
        is_mapped = X.base is not None and bool(mapped_files((X,)))
        if X.ndim != 2 or X.shape[1] != model.n_features_in_ or is_mapped:
            return None
    elif named and _is_frame(X):
        values = X
        if not np.array_equal(np.asarray(values.columns, object), model.feature_names_in_):
            return None
        names = {dtype.name if isinstance(dtype, np.dtype) else "" for dtype in values.dtypes}
    else:
        return None
    is_small = 0 < len(values) and 8 * values.shape[0] * values.shape[1] <= SMALL
    encoding = getattr(model, "encoding_", None)
    is_coded = getattr(model, "levels_", None) or not (encoding is None or encoding.is_plain)
    if not is_small or is_coded or not names <= {*NUMBERS}:
        return None
    used = getattr(model, "_used_columns", lambda: None)()
    dtype = np.float32 if names <= {*SINGLE} else np.float64
    rows = np.array(values, dtype, order="C")
    if encoding is not None and np.isnan(rows).any():  # the encoding says what they mean
        return None
    return rows if used is None else np.ascontiguousarray(rows[:, used])


def _is_frame(X: object) -> TypeGuard[Frame]:
    """Whether X is a pandas frame, told without loading pandas."""
    return type(X).__name__ == "DataFrame" and type(X).__module__ in PANDAS


def rows_to_draw(X: npt.ArrayLike) -> np.ndarray:
    """The rows of a picture that has a point for each, as an array of float64."""
    if isinstance(X, Dataset | str | os.PathLike):
        raise TypeError(
            f"X is a {type(X).__name__}, but every row is drawn as a point: give rows in memory, "
            "an array or a frame of some of them"
        )
    return np.asarray(X, np.float64)


def used_columns(model: TakesRows, dataset: Dataset) -> Dataset:
    """The columns a fitted model's decisions need: all, unless ``_used_columns()`` lists some."""
    used = getattr(model, "_used_columns", lambda: None)()
    if used is None:
        return dataset
    return dataset.select([dataset.feature_names[j] for j in used])


def _open(model: TakesRows, X: object, y: object, sample_weight: object, *, reset: bool) -> Dataset:
    """X, y and weights of any kind as one dataset; in-memory tables get scikit-learn's checks."""
    if isinstance(X, Dataset):
        for given, own, word in ((y, X.target, "target"), (sample_weight, X.weight, "weight")):
            if given is not None and own is not None:
                raise ValueError(
                    f"the {word} is given twice: the dataset was opened with {word}={own!r}, and "
                    f"{'y' if word == 'target' else 'sample_weight'} was passed too; leave one out"
                )
            if given is not None:
                raise ValueError(
                    f"{'y' if word == 'target' else 'sample_weight'} cannot be added to a Dataset; "
                    f"open it with open_dataset(..., {word}=...)"
                )
        return X
    if is_on_disk(X) or isinstance(y, str) or isinstance(sample_weight, str):
        for given, word in ((y, "y"), (sample_weight, "sample_weight")):
            if given is not None and not isinstance(given, str):
                raise ValueError(
                    f"{word} must be the name of a column of X here, got {type(given).__name__}; "
                    "rows on disk and columns in memory cannot be paired safely"
                )
        features = None
        if not reset and is_on_disk(X) and hasattr(model, "feature_names_in_"):
            features = list(model.feature_names_in_)  # a file may hold other columns too
        target, weight = (name if isinstance(name, str) else None for name in (y, sample_weight))
        return open_dataset(X, target=target, weight=weight, features=features)
    if reset and y is None:
        raise ValueError(
            f"{type(model).__name__} requires y to be passed, but the target y is None; pass an "
            "array of targets or the name of a column of X"
        )
    dataset = open_pair(X, y, check_weights(sample_weight))
    if not is_dask(X):
        _check_names(model, X, dataset, reset)
    return dataset


def open_pair(X: object, y: object, sample_weight: object) -> Dataset:
    """Rows with their targets and weights beside them, as one dataset."""
    if y is None and sample_weight is None:
        return open_dataset(X)
    open_store = open_arrays
    if is_dask(X):
        from ...data.dask.store import open_dask

        open_store = open_dask
    store = open_store(X, y, sample_weight)
    return dataset_of(store, store.default_target, store.default_weight)


def check_weights(sample_weight: object) -> np.ndarray | DaskCollection | None:
    """Weights given as an array: one a row, finite, >= 0, not all 0."""
    if sample_weight is None or is_dask(sample_weight):
        return sample_weight
    weight = np.asarray(sample_weight)
    if weight.ndim != 1:
        got = f"shape {weight.shape}" if weight.ndim else f"{weight.item()!r} for all rows"
        raise ValueError(
            f"sample_weight must be a 1D array of one number a row, got {got}; for equal weights "
            "pass np.full(len(X), weight)"
        )
    if weight.dtype.kind not in "biuf":
        try:
            weight = weight.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"sample_weight must hold a number for each row, got others in an array of dtype "
                f"{weight.dtype}; give a row that is to be left out weight 0"
            ) from error
    for bad, what in ((~np.isfinite(weight), "finite"), (weight < 0, "at least 0")):
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(f"sample_weight must be {what}, got {weight[row]} in row {row}")
    if weight.size and not weight.any():
        raise ValueError(
            "Sample weights must contain at least one non-zero number: a row of weight 0 is absent"
        )
    return weight


def _check_names(model: TakesRows, X: object, dataset: Dataset, reset: bool) -> None:
    """scikit-learn's own checks of feature names and count for a table in memory.

    Where it sees no names though there are some, as of a dict, `match_features` goes by them.
    """
    if dataset.is_named and dataset.kind not in ("pandas", "polars"):
        return
    known = hasattr(X, "shape") and len(X.shape) == 2
    shown = X if known else np.empty((1, dataset.n_features))
    validate_data(model, shown, reset=reset, skip_check_array=True)


def match_features(model: TakesRows, dataset: Dataset) -> Dataset:
    """The dataset's columns in the order the model was trained on, by name if both have names."""
    _check_sparse(model, dataset)
    trained = getattr(model, "feature_names_in_", None)
    if trained is None or not dataset.is_named:
        check_count(model, dataset.n_features)
        return as_trained(model, dataset)
    names = match_names(model, dataset.feature_names)
    if list(dataset.feature_names) != names:
        dataset = dataset.select(names)
    return as_trained(model, dataset)


def features_of(model: TakesRows, dataset: Dataset) -> Dataset:
    """Features that a fitted model decides by: its encoding of the columns, if it has one.

    While a model is being fitted its encoding is not complete, and the columns are as they are.
    """
    encoding = getattr(model, "encoding_", None)
    return dataset if encoding is None or encoding.missing is None else encoded(model, dataset)


def match_names(model: TakesRows, offered: Sequence[str]) -> list[str]:
    """The trained feature names, all of which must be among those offered."""
    trained = [str(name) for name in model.feature_names_in_]
    missing = [name for name in trained if name not in set(offered)]
    if missing:
        others = [name for name in offered if name not in set(trained)]
        raise ValueError(
            f"X lacks {len(missing)} of the {len(trained)} columns that {type(model).__name__} was "
            f"trained on: {_listed(missing)}; it has others: {_listed(others)}; "
            "rename the columns as in training (feature_names_in_)"
        )
    return trained


def check_count(model: TakesRows, n_features: int) -> None:
    """Refuse rows of another width than the model was trained on."""
    if n_features != model.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input"
        )


def _check_sparse(model: TakesRows, dataset: Dataset) -> None:
    if dataset.sparse and not model._accepts_sparse:
        raise TypeError(
            f"Sparse data was passed to {type(model).__name__}, but dense data is required; "
            f"{model._why_dense}use X.toarray() if it fits in memory"
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(map(repr, names[:MAX_SHOWN])) + more if names else "none"
