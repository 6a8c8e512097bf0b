"""Answers put together from those for rows at risk: survival curves, chances of ordered classes.

A model of steps says how likely each step is the last for a row that comes to it.  What it says of
a row is asked for all steps at once, as rows at risk that nothing ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.dataset import Dataset
from ..data.risk.steps import Classes, Intervals, Steps
from ..data.risk.store import rows_at_risk
from ..engine.planning import MIN_SLICE_ROWS
from ..errors import MemoryBudgetError
from .model import Model
from .predicting import answer, write_rows
from .rows.inputs import open_data

BLOCK = 1 << 16
"""Rows whose chances are put together at a time."""


def survival_curves(
    model: Model, X: object, cuts: Sequence[float], *, interval: str = "interval"
) -> np.ndarray:
    """Predict for each row the chance that it is without an event at the end of each interval.

    S(t_j | x) = exp(-sum_(k <= j) h_k(x) (t_k - t_(k-1))), with the hazards h that a Poisson model
    of `Dataset.at_risk` learned.  Between two cuts the logarithm of S is a straight line.

    Parameters
    ----------
    model : AdditiveRegressor
        Fitted with ``loss="poisson"`` and `exposure` to rows of `Dataset.at_risk`.
    X : Dataset, path, frame or dict of arrays
        One row for each curve, with the model's features but the interval and the exposure; other
        columns are not read.
    cuts : sequence of float
        Those of the fit.  The model knows the numbers of its intervals and not their ends.
    interval : str
        Name of the column of intervals, as in `Dataset.at_risk`.

    Returns
    -------
    array of shape (n, len(cuts))
        n len(cuts) numbers must fit in the memory budget: give the rows in parts (`Dataset.split`),
        or write the hazards with ``model.predict_to(data.at_risk(...), path)``.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveRegressor, open_dataset, survival_curves
    >>> old = np.arange(200) % 2
    >>> table = {"old": old, "time": 1.0 + np.arange(200) % 3, "died": old}
    >>> rows = open_dataset(table, target="died").at_risk("time", cuts=[2, 4])
    >>> model = AdditiveRegressor("poisson", exposure="exposure", C=1).fit(rows)
    >>> survival_curves(model, {"old": np.array([0, 1])}, [2, 4]).round(2)
    array([[0.97, 0.9 ],
           [0.45, 0.07]])
    """
    steps = _intervals(model, cuts, interval)
    return _survival(answer(model, _all_steps(model, X, steps), "prediction"), steps.n_steps)


def ordinal_probabilities(
    model: Model, X: object, classes: Sequence[object], *, step: str = "step"
) -> np.ndarray:
    """Predict for each row the chance of each of the ordered classes.

    P(y = k | x) = q_k prod_(j < k) (1 - q_j), with the chances q_k to stop at step k that a
    classifier of `Dataset.ordinal_steps` learned; the last class is what is left.

    Parameters
    ----------
    model : classifier with probabilities
        Fitted to rows of `Dataset.ordinal_steps`.
    X : Dataset, path, frame or dict of arrays
        One row for each answer, with the model's features but the step.
    classes : sequence
        Those of the fit, in their order.
    step : str
        Name of the column of steps, as in `Dataset.ordinal_steps`.

    Returns
    -------
    array of shape (n, len(classes))
        Columns in the order of `classes`; each row adds up to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveClassifier, open_dataset, ordinal_probabilities
    >>> table = {"x": np.arange(300) % 2, "size": np.array(["S", "M", "L"] * 100)}
    >>> rows = open_dataset(table, target="size").ordinal_steps(["S", "M", "L"])
    >>> model = AdditiveClassifier(C=1).fit(rows)
    >>> ordinal_probabilities(model, {"x": np.array([0])}, ["S", "M", "L"]).round(2)
    array([[0.34, 0.33, 0.33]])
    """
    steps = _classes(model, classes, step)
    return _chances(answer(model, _all_steps(model, X, steps), "probability"), steps.n_steps)


def write_survival(
    model: Model, X: object, cuts: Sequence[float], path: str, *, overwrite: bool = False
) -> None:
    """Write `survival_curves` for the rows of X, however many, a column for each cut."""
    steps = _intervals(model, cuts, "interval")
    names = [f"survival_{cut:g}" for cut in steps.cuts.tolist()]
    _write(model, X, steps, "prediction", _survival, names, path, overwrite=overwrite)


def write_ordinal(
    model: Model, X: object, classes: Sequence[object], path: str, *, overwrite: bool = False
) -> None:
    """Write `ordinal_probabilities` for the rows of X, however many, a column for each class."""
    steps = _classes(model, classes, "step")
    names = [f"probability_{word}" for word in steps.words]
    _write(model, X, steps, "probability", _chances, names, path, overwrite=overwrite)


Put = Callable[[np.ndarray, int], np.ndarray]
"""A function that puts the answers for all steps of some rows together, in place."""


def _write(
    model: Model,
    X: object,
    steps: Steps,
    what: str,
    put: Put,
    names: list[str],
    path: str,
    *,
    overwrite: bool,
) -> None:
    J = steps.n_steps
    rows = _all_steps(model, X, steps)
    # runs that end with a row's last step, also once a plan has halved them
    doubled = max(rows.slice_rows // J, MIN_SLICE_ROWS).bit_length() - 1
    rows = rows.with_slice_rows(J << doubled)
    write_rows(model, rows, path, what, partial(_of_rows, put, J), names, overwrite=overwrite)


def _of_rows(put: Put, n_steps: int, answers: np.ndarray) -> np.ndarray:
    if len(answers) % n_steps:
        raise MemoryBudgetError(
            f"{len(answers)} steps at a time, of {n_steps} a row, are all that the memory budget "
            "has room for, which are not whole rows; raise memory_budget"
        )
    return put(answers, n_steps)


def _intervals(model: Model, cuts: Sequence[float], interval: str) -> Intervals:
    """The intervals of a model of hazards."""
    check_is_fitted(model)
    exposure = getattr(model, "exposure", None)
    if exposure is None:
        raise ValueError(
            f"{type(model).__name__} was fitted without exposures, so that its predictions are no "
            "hazards; fit AdditiveRegressor('poisson', exposure='exposure') to data.at_risk(...)"
        )
    exposure = exposure if isinstance(exposure, str) else _names_of(model)[exposure]
    return Intervals(cuts, interval, exposure)


def _classes(model: Model, classes: Sequence[object], step: str) -> Classes:
    """The steps of a model of going on and stopping."""
    check_is_fitted(model)
    if len(getattr(model, "classes_", ())) != 2:
        raise ValueError(
            f"{type(model).__name__} has no probabilities of two classes, to stop at a step and to "
            "go on; fit a classifier to data.ordinal_steps(classes)"
        )
    return Classes(classes, step)


def _survival(hazards: np.ndarray, n_steps: int) -> np.ndarray:
    """(n, n_steps) chances of no event from (n n_steps,) hazards of intervals, in place."""
    survival = hazards.reshape(-1, n_steps)
    for j in range(1, n_steps):  # in place: the answer may fill the budget
        survival[:, j] += survival[:, j - 1]
    np.negative(survival, out=survival)
    return np.exp(survival, out=survival)


def _chances(answers: np.ndarray, n_steps: int) -> np.ndarray:
    """(n, n_steps + 1) chances of classes from (n n_steps, 2) of going on and stopping, in place.

    The answers may fill the budget, and a row's chances are no more numbers than its answers.
    """
    n, K = len(answers) // n_steps, n_steps + 1
    given = answers.reshape(n, n_steps, 2)
    found = answers.reshape(-1)[: n * K].reshape(n, K)
    for start in range(0, n, BLOCK):
        stops = given[start : start + BLOCK, :, 1].copy()
        chances = np.ones((len(stops), K))
        for k in range(n_steps):
            chances[:, k + 1] = chances[:, k] * (1.0 - stops[:, k])
        chances[:, :-1] *= stops
        found[start : start + BLOCK] = chances  # never beyond the answers that were read
    return found


def _names_of(model: Model) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    return [] if names is None else [str(name) for name in names]


def _all_steps(model: Model, X: object, steps: Steps) -> Dataset:
    """All steps of each row, one row after the other."""
    names = _names_of(model)
    missing = [name for name in steps.names if name not in names]
    if missing:
        raise ValueError(
            f"{type(model).__name__} was not fitted to rows at risk: it has no column "
            f"{', '.join(map(repr, missing))}, but {', '.join(map(repr, names[:10])) or 'no names'}"
        )
    data = open_data(X)
    wanted = [name for name in names if name not in steps.names] or data.feature_names[:1]
    return rows_at_risk(replace(data.select(wanted), target=None, weight=None), steps)
