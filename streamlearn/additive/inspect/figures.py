"""Figures of an additive model: the curve of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ...estimator.report.figures import BAND, MOST_ROWS, Curve, Figure, Rows
from ...estimator.restored import output_labels
from ...estimator.rows.encoding import feature_names
from ...numeric.bases.bsplines import Bases
from ...numeric.bases.registry import LEVELS
from ...numeric.links import LOG, LOGIT
from ...numeric.losses import Loss

MOST_PANELS = 12
"""Columns that are drawn by default, those of largest importance."""
GRID_POINTS = 200
MOST_POINTS = 24
"""Values of a column of numbers that have a point each on their curve."""
WIDTHS = np.array([0.01, 0.08])
"""Least and largest width of the bar of rows at one value, as shares of the values' range: values
that lie close together beside one far away have bars that can be seen."""
MISSING, OTHER = "missing", "other"


class Shares(Protocol):
    """The shares of the rows along a column: at values, or between edges."""

    @property
    def at(self) -> np.ndarray: ...
    @property
    def share(self) -> np.ndarray: ...
    @property
    def missing(self) -> float: ...


class HasCurves(Protocol):
    """A fitted additive model, by what is drawn of it."""

    n_features_in_: int
    bases_: Bases
    levels_: dict[str, list[str]]

    @property
    def _loss(self) -> Loss: ...
    @property
    def _is_joint(self) -> bool: ...
    @property
    def knots_(self) -> list[np.ndarray]: ...
    @property
    def densities_(self) -> Sequence[Shares]: ...
    @property
    def term_importances_(self) -> np.ndarray: ...
    def _curve(self, d: int, grid: object) -> np.ndarray: ...
    def _curve_deviation(self, d: int, grid: object) -> np.ndarray: ...


def decision_unit(model: HasCurves) -> str:
    """The quantity to which a curve adds, with its unit."""
    link, classes = model._loss.link, getattr(model, "classes_", None)
    if model._is_joint:
        return "decision for the class (softmax)"
    if link is LOGIT and classes is not None:
        return f"log-odds of {classes[1]}" if len(classes) == 2 else "log-odds of the class"
    if classes is not None:
        return f"decision for {classes[1]}" if len(classes) == 2 else "decision for the class"
    return "logarithm of the mean" if link is LOG else "units of the target"


def outputs_word(model: object) -> str:
    """The plural noun of a row's decisions, where it has several."""
    return "classes" if hasattr(model, "classes_") else "quantiles"


def output_name(model: object, k: int) -> str:
    """The name of one of several decisions."""
    noun = "class" if hasattr(model, "classes_") else "quantile"
    return f"{noun} {output_labels(model)[k]}"


def drawn_columns(model: HasCurves) -> list[int]:
    """The columns that have a curve and matter most, in the order of the table."""
    drawn = [d for d, knots in enumerate(model.knots_) if len(knots)]
    by_rank = sorted(drawn, key=lambda d: -model.term_importances_[d])
    return sorted(by_rank[:MOST_PANELS])


def is_category(model: HasCurves, d: int) -> bool:
    """Whether a column's words have a bar each; a column of numbers is a curve, however few."""
    return int(model.bases_.kind[d]) == LEVELS


def has_values(density: Shares) -> bool:
    """Whether a column has a coefficient for each of its values, and the rows are counted there."""
    return len(density.at) == len(density.share)


def grid_of(model: HasCurves, d: int) -> np.ndarray:
    """Points, ascending, where a column's curve is drawn; last NaN, if missing values have a level.

    At its values if they are few, else at its breakpoints and evenly in between.
    """
    grid = knots = model.knots_[d]
    if not has_values(model.densities_[d]):
        grid = np.union1d(knots, np.linspace(knots[0], knots[-1], GRID_POINTS))
    return np.append(grid, np.nan) if model.bases_.has_missing[d] else grid


def has_points(density: Shares) -> bool:
    """Whether the values of a column of numbers are so few that each is a point of the curve."""
    return has_values(density) and len(density.at) <= MOST_POINTS


def spans_of(density: Shares) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, ends and shares (b,) of the bars that say where the rows lie along numbers."""
    at, share = density.at, density.share
    if not has_values(density):
        return at[:-1], at[1:], share
    reach = float(at[-1] - at[0]) or 1.0
    wide = np.clip(0.8 * np.diff(at).min(initial=reach), *(reach * WIDTHS))
    return at - wide / 2, at + wide / 2, share


def tick_labels(grid: np.ndarray, words: Sequence[str] | None) -> list[str]:
    """A name for each value."""
    if words is None:
        return [MISSING if np.isnan(value) else f"{value:.4g}" for value in grid]
    return [*words, OTHER][: len(grid)]


def shortened(name: str, most: int) -> str:
    """The name, with dots for what is beyond this number of letters."""
    return name if len(name) <= most else name[: most - 3] + "..."


def figures_of(model: HasCurves) -> tuple[str, list[Figure]]:
    """The curves of the largest terms, largest first, and what is said of them."""
    columns = drawn_columns(model)
    columns.sort(key=lambda d: -model.term_importances_[d])
    n_curves = sum(len(knots) > 0 for knots in model.knots_)
    said = (
        "What each column adds to the decision; each term is 0 on average over the training rows, "
        "and all have one vertical scale. Grey: how many of them lie there."
    )
    if hasattr(model, "effective_dof_"):
        said += (
            " Bands, and whiskers on single values, cover their curve 95 times in 100, on average "
            "over the column."
        )
    if n_curves > len(columns):
        said += f" The {len(columns)} largest of {n_curves} terms are drawn."
    return said, [_figure(model, d) for d in columns]


def _figure(model: HasCurves, d: int) -> Figure:
    name, density, unit = feature_names(model)[d], model.densities_[d], decision_unit(model)
    grid = grid_of(model, d)
    y = model._curve(d, grid).reshape(len(grid), -1)
    labels = [str(label) for label in output_labels(model)]
    has_missing = bool(np.isnan(grid[-1]))
    band = None
    if hasattr(model, "effective_dof_"):  # it knows its covariance
        reach = BAND * model._curve_deviation(d, grid).reshape(y.shape)
        if np.isfinite(reach).all():  # of a term that was edited it is not known
            band = y - reach, y + reach
    if not is_category(model, d):
        n = len(grid) - has_missing
        return Curve(
            name,
            unit,
            grid[:n],
            y[:n],
            labels,
            band and (band[0][:n], band[1][:n]),
            spans_of(density),
            missing=y[-1] if has_missing else None,
            missing_band=(band[0][-1], band[1][-1]) if band and has_missing else None,
            points=has_points(density),
        )
    words = model.levels_.get(name)
    names = tick_labels(grid, words)
    share = np.append(density.share, density.missing) if has_missing else density.share
    kept, note = np.arange(len(names)), ""
    if len(names) > MOST_ROWS:
        kept = np.sort(np.argsort(-share, kind="stable")[:MOST_ROWS])
        note = f"the {MOST_ROWS} of {len(names)} values that most rows have"
    return Rows(
        name,
        unit,
        [names[j] for j in kept],
        y[kept],
        labels,
        band and (band[0][kept], band[1][kept]),
        share[kept],
        note,
    )
