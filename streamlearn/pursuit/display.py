"""Picture of projection pursuit: each term's direction beside its function of the projection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..estimator.colours import NEGATIVE, POSITIVE
from ..estimator.rows.encoding import feature_names
from .boosting.classifier import JensenShannonBoostClassifier
from .model import MOST_BARS, MOST_DRAWN
from .regression.regressor import ProjectionPursuitRegressor

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

_ROW_INCHES = 2.2


class PursuitDisplay:
    """Directions and functions of a `ProjectionPursuitRegressor` or `JensenShannonBoostClassifier`.

    `from_estimator` makes it.  Each term has a row of two panels.  The left one shows the entries
    of its unit-length direction, beginning with the largest.  The right one shows what it adds at
    each value of the projection, as a curve or as the steps of a histogram; the shaded area shows
    where the rows of `X` lie.

    Attributes
    ----------
    names : list of list of str
        Names of the columns of each term's bars.
    weights : list of (k,) arrays
        Entries of each direction at these columns.
    grids, curves : list of (m,) arrays
        Values of the projection, and of the function there.
    densities : list of (m - 1,) arrays, or None
        Share of the rows of `X` between the points of the grid.
    axes_ : (terms, 2) array of Axes
    figure_ : Figure
    """

    def __init__(
        self,
        names: Sequence[Sequence[str]],
        weights: Sequence[np.ndarray],
        grids: Sequence[np.ndarray],
        curves: Sequence[np.ndarray],
        densities: Sequence[np.ndarray] | None,
        *,
        titles: Sequence[str],
        steps: bool,
    ) -> None:
        self.names, self.weights = [list(n) for n in names], list(weights)
        self.grids, self.curves = list(grids), list(curves)
        self.densities = None if densities is None else list(densities)
        self.titles, self.steps = list(titles), steps

    @classmethod
    def from_estimator(
        cls,
        estimator: ProjectionPursuitRegressor | JensenShannonBoostClassifier,
        X: npt.ArrayLike | None = None,
        *,
        terms: Sequence[int] | None = None,
        ax: npt.ArrayLike | None = None,
    ) -> PursuitDisplay:
        """Evaluate and draw the terms of a fitted model.

        Parameters
        ----------
        estimator : fitted ProjectionPursuitRegressor or JensenShannonBoostClassifier
        X : array-like of shape (n, n_features), optional
            Rows whose density is drawn: an array, a frame, a path or a Dataset.
        terms : sequence of int, optional
            Terms to draw, in the order of `estimator.pieces_`; default: the first 6.
        ax : (terms, 2) array of Axes, optional
            Where to draw; default: in a new figure.
        """
        check_is_fitted(estimator)
        pieces = estimator.pieces_
        chosen = list(range(min(len(pieces), MOST_DRAWN))) if terms is None else list(terms)
        if not chosen or not all(-len(pieces) <= k < len(pieces) for k in chosen):
            raise ValueError(
                f"terms {chosen} of a model with {len(pieces)} terms; "
                + ("choose among them" if pieces else "without a term there is nothing to draw")
            )
        all_names = feature_names(estimator)
        names, weights, grids, curves, densities, titles = [], [], [], [], [], []
        for k in chosen:
            piece = pieces[k]
            alpha = piece["direction"]
            order = np.argsort(-np.abs(alpha), kind="stable")[:MOST_BARS]
            order = order[alpha[order] != 0]
            names.append([str(all_names[m]) for m in order])
            weights.append(alpha[order])
            grids.append(piece["grid"])
            curves.append(piece["values"])
            titles.append(piece["title"])
            if X is not None:
                t = estimator.project(X, k)
                inside = np.clip(t, piece["grid"][0], piece["grid"][-1], out=t)
                edges = np.linspace(piece["grid"][0], piece["grid"][-1], 41)
                densities.append(np.histogram(inside, edges)[0] / max(len(t), 1))
        display = cls(
            names,
            weights,
            grids,
            curves,
            densities if X is not None else None,
            titles=titles,
            steps=hasattr(estimator, "classes_"),
        )
        return display.plot(ax=ax)

    def plot(self, *, ax: npt.ArrayLike | None = None) -> PursuitDisplay:
        """Draw on (terms, 2) axes; default: in a new figure."""
        n = len(self.titles)
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(
                n,
                2,
                figsize=(7.5, _ROW_INCHES * n),
                squeeze=False,
                layout="constrained",
                width_ratios=(1, 1.6),
            )
        axes = np.asarray(ax, dtype=object)
        if axes.shape != (n, 2):
            raise ValueError(f"ax must hold ({n}, 2) axes, two for each term; got {axes.shape}")
        self.axes_, self.figure_ = axes, axes[0, 0].figure
        low = min(float(curve.min()) for curve in self.curves)
        high = max(float(curve.max()) for curve in self.curves)
        margin = 0.06 * (high - low) or 1.0
        for k in range(n):
            self._draw_direction(axes[k, 0], k)
            self._draw_function(axes[k, 1], k)
            axes[k, 1].set_ylim(low - margin, high + margin)
        axes[0, 0].set_title("direction", fontsize="medium")
        axes[0, 1].set_title("function of the projection", fontsize="medium")
        return self

    def _draw_direction(self, panel: Axes, k: int) -> None:
        values = self.weights[k]
        at = np.arange(len(values))
        panel.barh(at, values, color=np.where(values > 0, POSITIVE, NEGATIVE), height=0.7)
        panel.set_yticks(at, self.names[k], fontsize="small")
        panel.set_ylim(len(values) - 0.4, -0.6)
        panel.set_xlim(-1.05, 1.05)
        panel.axvline(0.0, color="0.6", linewidth=0.8)
        panel.set_ylabel(self.titles[k], fontsize="small")

    def _draw_function(self, panel: Axes, k: int) -> None:
        grid, curve = self.grids[k], self.curves[k]
        if self.densities is not None:
            density = self.densities[k]
            behind = panel.twinx()
            behind.stairs(
                density, np.linspace(grid[0], grid[-1], len(density) + 1), fill=True, color="0.88"
            )
            behind.set_ylim(0, 2.2 * float(density.max()))
            behind.set_yticks([])
            panel.set_zorder(behind.get_zorder() + 1)
            panel.patch.set_visible(False)
        panel.axhline(0.0, color="0.7", linewidth=0.8)
        if self.steps:
            panel.stairs(curve, grid, baseline=None, linewidth=1.5)
        else:
            panel.plot(grid, curve, linewidth=1.5)
