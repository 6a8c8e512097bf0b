"""What both estimators share: parameters, the path of tau, the weight of columns, shared reads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from .columns import project
from .kernels import ScaledColumns

GRID_POINTS = 200
SAMPLE_ROWS, SAMPLE_NBYTES = 4096, 8 << 20
"""Rows that a direction's first column is guessed from."""


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


class PursuitModel:
    """Base of both estimators: one fitted model for each tau, and directions to ask about.

    A subclass sets ``_columns`` and the lists ``_taus`` and ``_path`` (a model for each), and has
    ``_keep(model)``, which makes one of them that which predicts, and
    ``_check(model, columns)``, which raises ValueError if one from a file cannot be; ``_alphas``
    and ``_weights`` are the directions of the one kept and what eq. 14 weighs them by.
    """

    _accepts_sparse = True
    _parameter_constraints: dict[str, list[object]] = {
        "tau": [Interval(Real, 0, None, closed="right"), "array-like"],
        "penalty": [StrOptions({"scale-free", "paper"})],
        "standardize": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def _sample_rows(self, dataset: Any) -> int:
        row = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1) + 16
        return max(64, min(SAMPLE_ROWS, int(SAMPLE_NBYTES / row)))

    def select(self, tau: float) -> Any:
        """Predict with the model of another tau of the path from now on; returns self."""
        check_is_fitted(self)
        if float(tau) not in self._taus:
            raise ValueError(f"tau={tau} is not on the path {self._taus}")
        self._choose(float(tau))
        return self

    def _choose(self, tau: float) -> None:
        self._keep(self._path[self._taus.index(tau)])
        self.tau_ = tau

    def project(self, X: Any, term: int) -> np.ndarray:
        """(n,) projections of rows in memory on the unit-length direction `pieces_[term]` has."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return project(rows, self._columns, unit_length(self._alphas[term]))

    def irrelevant_weight(self, columns: Any) -> float:
        """Share of the directions' weight that lies on some columns (eq. 14); 0 without directions.

        r = sum_j w_j sum_{m in columns} |a_jm| / sum_j w_j sum_m |a_jm| at unit length, w_j the
        standard deviation of a ridge function over its range, or the root mean square of a
        learner's heights over the training rows.

        Parameters
        ----------
        columns : sequence of int or str
        """
        chosen = column_numbers(self, columns)
        part = total = 0.0
        for alpha, weight in zip(self._alphas, self._weights, strict=True):
            size = np.abs(unit_length(alpha))
            part += weight * float(size[chosen].sum())
            total += weight * float(size.sum())
        return part / total if total > 0 else 0.0

    def _state(self) -> dict[str, Any]:
        names = ("_columns", "_taus", "_path", "_losses", "tau_")
        return {name.strip("_"): getattr(self, name) for name in names}

    def _restore(self, tree: dict[str, Any]) -> None:
        columns, path = tree["columns"], tree["path"]
        if not isinstance(columns, ScaledColumns):
            raise ValueError(f"the columns are a {type(columns).__name__}")
        columns.check_scaling(self.n_features_in_)
        if len(check_tau(tree["taus"])) != len(path) or len(tree["losses"]) != len(path):
            raise ValueError(f"{len(path)} models for {len(tree['taus'])} strengths")
        for model in path:
            self._check(model, columns)
        self._columns, self._taus, self._path = columns, tree["taus"], path
        self._losses = tree["losses"]
        self._choose(tree["tau"])


def unit_length(alpha: np.ndarray) -> np.ndarray:
    """A direction of length 1."""
    return alpha / np.sqrt(alpha @ alpha)


def drive(
    read: Callable[[int, list[tuple[int, Any]]], list[Any]], models: list[Generator]
) -> list[Any]:
    """Run generators that yield requests, in step, until each has returned; what they returned.

    ``read(number, [(model, request), ...])`` gives the answers of one round, in that order.  Which
    reads are made depends on answers only, so a resumed fit makes the same ones.
    """
    results: list[Any] = [None] * len(models)
    requests: dict[int, Any] = {}

    def advance(k: int, answer: Any) -> None:
        try:
            requests[k] = models[k].send(answer)
        except StopIteration as end:
            requests.pop(k, None)
            results[k] = end.value

    for k in range(len(models)):
        advance(k, None)
    number = 0
    while requests:
        asked = sorted(requests.items())
        number += 1
        for (k, _), answer in zip(asked, read(number, asked), strict=True):
            advance(k, answer)
    return results
