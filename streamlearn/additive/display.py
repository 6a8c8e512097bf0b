"""Pictures of additive models: one panel a column, the curve that it adds to the decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

MOST_PANELS = 12
GRID_POINTS = 200
_PANEL_INCHES = (3.2, 2.4)


class AdditiveDisplay:
    """The learned shape functions of an `AdditiveClassifier` or `AdditiveRegressor`.

    Made by `from_estimator`.  A column with one coefficient for each of its values is drawn as
    dots, any other as a line between its first and last knot; ticks below are the knots, which lie
    dense where the training rows do.  All panels share the vertical axis, so heights compare.

    Attributes
    ----------
    names : list of str
    grids : list of (m,) arrays
        Where each curve is evaluated.
    curves : list of (m,) or (m, K) arrays
        Its values; K classes with more than two of them.
    axes_ : array of Axes
    figure_ : Figure
    """

    def __init__(
        self,
        names: Sequence[str],
        grids: Sequence[np.ndarray],
        curves: Sequence[np.ndarray],
        *,
        knots: Sequence[np.ndarray],
        by_value: Sequence[bool],
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.names, self.grids, self.curves = list(names), list(grids), list(curves)
        self.knots, self.by_value, self.classes = list(knots), list(by_value), classes

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, features: Sequence[int | str] | None = None, ax: Any = None
    ) -> AdditiveDisplay:
        """Evaluate and draw the curves of a fitted model.

        Parameters
        ----------
        estimator : fitted AdditiveClassifier or AdditiveRegressor
        features : sequence of int or str, optional
            Columns to draw; default the 12 whose curves rise and fall most.
        ax : array of Axes, optional
            One for each column; default a new figure.
        """
        check_is_fitted(estimator)
        all_names = getattr(estimator, "feature_names_in_", None)
        if all_names is None:
            all_names = [f"x{d}" for d in range(estimator.n_features_in_)]
        knots = estimator.knots_
        by_value = _by_value(estimator)
        if features is None:
            drawn = [d for d in range(len(knots)) if len(knots[d])]
            heights = {d: np.ptp(_curve(estimator, d, knots[d]), axis=0).max() for d in drawn}
            columns = sorted(sorted(drawn, key=lambda d: -heights[d])[:MOST_PANELS])
        else:
            columns = [estimator._column(feature) for feature in features]
        constant = [str(all_names[d]) for d in columns if not len(knots[d])]
        if constant or not columns:
            raise ValueError(
                f"columns {constant} were constant in training and have no curve; leave them out"
                if constant
                else "every column was constant in training: there is no curve to draw"
            )
        grids = [
            knots[d] if by_value[d] else np.linspace(knots[d][0], knots[d][-1], GRID_POINTS)
            for d in columns
        ]
        classes = getattr(estimator, "classes_", None)
        display = cls(
            [str(all_names[d]) for d in columns],
            grids,
            [_curve(estimator, d, grid) for d, grid in zip(columns, grids, strict=True)],
            knots=[knots[d] for d in columns],
            by_value=[bool(by_value[d]) for d in columns],
            classes=None if classes is None or len(classes) == 2 else list(classes),
        )
        return display.plot(ax=ax)

    def plot(self, *, ax: Any = None) -> AdditiveDisplay:
        """Draw; `ax` as in `from_estimator`."""
        if ax is None:
            ax = _new_axes(len(self.names))
        axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(axes) != len(self.names):
            raise ValueError(f"got {len(axes)} axes for {len(self.names)} columns")
        self.axes_, self.figure_ = axes, axes[0].figure
        panels = zip(axes, self.names, self.grids, self.curves, self.by_value, strict=True)
        for panel, name, grid, curve, by_value in panels:
            style = {"marker": "o", "linestyle": ":"} if by_value else {"linestyle": "-"}
            lines = panel.plot(grid, curve, linewidth=1.5, markersize=4, **style)
            panel.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
            panel.set_title(name, fontsize="medium")
        low = min(float(curve.min()) for curve in self.curves)
        high = max(float(curve.max()) for curve in self.curves)
        margin = 0.06 * (high - low) or 1.0
        for panel, knots in zip(axes, self.knots, strict=True):
            panel.set_ylim(low - 2 * margin, high + margin)
            rug = np.full(len(knots), low - 1.5 * margin)
            panel.plot(knots, rug, "|", color="0.4", markersize=5)
        if self.classes is not None:
            labels = [str(label) for label in self.classes]
            axes[0].legend(lines, labels, fontsize="x-small", ncols=2)
        return self


def _curve(estimator: Any, column: int, grid: np.ndarray) -> np.ndarray:
    return estimator.shape_function(column, grid)


def _by_value(estimator: Any) -> np.ndarray:
    """Columns whose few values have a coefficient each."""
    bases = estimator.bases_
    if estimator.degree > 1:
        return bases.degree == 1
    return np.diff(bases.first_knot) < estimator.n_bases


def _new_axes(n_panels: int) -> np.ndarray:
    """Axes of a new figure, four panels a row, sharing the vertical axis."""
    import matplotlib.pyplot as plt

    n_wide = min(4, n_panels)
    n_high = -(-n_panels // n_wide)
    width, height = _PANEL_INCHES
    figure, axes = plt.subplots(
        n_high,
        n_wide,
        figsize=(width * n_wide, height * n_high),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for spare in axes.ravel()[n_panels:]:
        spare.remove()
    return axes.ravel()[:n_panels]
