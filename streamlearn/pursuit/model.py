"""What both estimators share: columns, sample, cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from .columns import project

GRID_POINTS = 200
SAMPLE_ROWS, SAMPLE_NBYTES = 4096, 8 << 20
"""Rows that a direction's first column is guessed from."""


def sample_rows(dataset: Any) -> int:
    """Rows of the sample, as far as 8 MiB go."""
    row = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1) + 16
    return max(64, min(SAMPLE_ROWS, int(SAMPLE_NBYTES / row)))


def check_tau(tau: Any) -> list[float]:
    """The strengths to fit: one, or a path of several."""
    values = list(tau) if isinstance(tau, Sequence | np.ndarray) else [tau]
    if not values:
        raise ValueError("tau is an empty sequence; give at least one value, such as tau=[15]")
    for value in values:
        number = isinstance(value, int | float | np.integer | np.floating)
        if not number or isinstance(value, bool) or not value > 0:
            raise ValueError(
                f"tau must be > 0 (float('inf') for no penalty), or a sequence of such, got "
                f"{value!r}"
            )
    return [float(value) for value in values]


def column_numbers(model: Any, columns: Any) -> list[int]:
    """Numbers of columns given by number or name."""
    check_is_fitted(model)
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    found = []
    for column in columns:
        if isinstance(column, str):
            if column not in names:
                raise ValueError(f"no column {column!r}; the columns are {names[:10]}")
            found.append(names.index(column))
        elif not -model.n_features_in_ <= column < model.n_features_in_:
            raise ValueError(f"column {column} of {model.n_features_in_} columns")
        else:
            found.append(int(column) % model.n_features_in_)
    return found


def weight_share(
    alphas: Sequence[np.ndarray], weights: Sequence[float], chosen: list[int]
) -> float:
    """Eq. 14: sum_j w_j sum_{m in chosen} |a_jm| over the same of all columns; 0 for no terms.

    Directions are taken at unit length, so that their scale says nothing.
    """
    part = total = 0.0
    for alpha, weight in zip(alphas, weights, strict=True):
        size = np.abs(alpha) / np.sqrt(alpha @ alpha)
        part += weight * float(size[chosen].sum())
        total += weight * float(size.sum())
    return part / total if total > 0 else 0.0


def project_rows(model: Any, X: Any, alpha: np.ndarray) -> np.ndarray:
    """(n,) projections of rows in memory on alpha taken at unit length."""
    check_is_fitted(model)
    rows = validate_data(model, X, reset=False, dtype=np.float64)
    return project(rows, model._columns, alpha / np.sqrt(alpha @ alpha))
