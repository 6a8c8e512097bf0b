"""Picture of a mixture: a map of two columns, or the weights and sizes of the components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.source import Chunk
from ..estimator.colours import SIGNED, TWO_CLASSES
from ..estimator.report.figures import MOST_COLUMNS
from ..estimator.rows.encoding import feature_names
from ..estimator.rows.inputs import rows_to_draw
from .answers import gate_shares
from .estimator import SVMMixtureClassifier
from .figures import expert_weights, largest_columns

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

GRID_POINTS = 240
"""Points of the map along each column."""
_INCHES = (5.0, 4.4)


class MixtureDisplay:
    """The components of a fitted `SVMMixtureClassifier`.

    `from_estimator` makes it.  With two columns it is a map, coloured by the component to which the
    gate gives the largest share of a point, with the component's number in the middle of its region
    and a line where the answer changes (Fu 2010, Fig. 3 and 4).  With more columns it shows the
    experts' weights in scaled columns: a row for each component with its share of the rows, and the
    columns whose weights are largest.

    Attributes
    ----------
    shares : (k,) float64
        Share of the rows that each component holds.
    grid : (xs, ys) or None
        Coordinates where the map was evaluated; None with more than two columns.
    region : (len(ys), len(xs)) int64 or None
        Component of each grid point.
    answer : (len(ys), len(xs)) int64 or None
        Number of the class at each grid point.
    weights : (k, p) float64
        Weights of the experts; with several decisions the norm over them.
    ax_ : Axes
    figure_ : Figure
    """

    def __init__(
        self,
        shares: np.ndarray,
        weights: np.ndarray,
        names: Sequence[str],
        *,
        grid: tuple[np.ndarray, np.ndarray] | None = None,
        region: np.ndarray | None = None,
        answer: np.ndarray | None = None,
        rows: np.ndarray | None = None,
        codes: np.ndarray | None = None,
    ) -> None:
        self.shares, self.weights, self.names = shares, weights, list(names)
        self.grid, self.region, self.answer = grid, region, answer
        self.rows, self.codes = rows, codes

    @classmethod
    def from_estimator(
        cls,
        estimator: SVMMixtureClassifier,
        X: npt.ArrayLike | None = None,
        y: npt.ArrayLike | None = None,
        *,
        ax: Axes | None = None,
    ) -> MixtureDisplay:
        """Evaluate and draw a fitted model.

        Parameters
        ----------
        estimator : fitted SVMMixtureClassifier
        X, y : array-like of shape (n, 2) and (n,), optional
            Rows to draw on a map of two columns.  X also gives the map's extent; without it the
            map shows where the scaled columns lie within 2 of their middle.
        ax : Axes, optional
            Where to draw; default: in a new figure.
        """
        check_is_fitted(estimator)
        names = feature_names(estimator)
        p = len(names)
        weights = expert_weights(estimator.problem_, estimator.parameters_)
        if p != 2:
            if X is not None:
                raise ValueError(f"rows are drawn on a map of 2 columns; this model has {p}")
            return cls(estimator.weights_, weights, names).plot(ax=ax)
        rows = None if X is None else rows_to_draw(X)
        xs, ys = _extent(estimator, rows)
        points = np.column_stack([axis.ravel() for axis in np.meshgrid(xs, ys)])
        shape = len(ys), len(xs)
        chunk = Chunk(points, rows=range(len(points)))  # no frame: it needs no names
        label = estimator._label(estimator._decision_chunk(chunk))
        answer = np.searchsorted(estimator.classes_, label)
        display = cls(
            estimator.weights_,
            weights,
            names,
            grid=(xs, ys),
            region=gate_shares(estimator.problem_, estimator.parameters_, points)
            .argmax(axis=1)
            .reshape(shape),
            answer=answer.reshape(shape),
            rows=rows,
            codes=None if y is None else np.searchsorted(estimator.classes_, np.asarray(y)),
        )
        return display.plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> MixtureDisplay:
        """Draw on these axes; default: in a new figure."""
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=_INCHES, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        if self.grid is None or self.region is None or self.answer is None:
            self._plot_weights(ax)
        else:
            self._plot_map(ax, *self.grid, self.region, self.answer)
        return self

    def _plot_map(
        self, ax: Axes, xs: np.ndarray, ys: np.ndarray, region: np.ndarray, answer: np.ndarray
    ) -> None:
        from matplotlib import colormaps

        colours = colormaps["tab20"].resampled(20)(np.arange(len(self.shares)) % 20)
        extent = xs[0], xs[-1], ys[0], ys[-1]
        ax.imshow(colours[region], extent=extent, origin="lower", aspect="auto", alpha=0.35)
        if np.ptp(answer):
            levels = np.arange(answer.max()) + 0.5
            ax.contour(xs, ys, answer, levels=levels, colors="black", linewidths=1.2)
        if self.rows is not None:
            codes = np.zeros(len(self.rows)) if self.codes is None else self.codes
            x, y = self.rows.T
            ax.scatter(x, y, c=codes, cmap=TWO_CLASSES, s=6, linewidths=0.4, edgecolors="white")
        for j in range(len(self.shares)):
            at = np.argwhere(region == j)
            if len(at):
                # the point of the region nearest to its middle, which may lie outside the region
                middle = at[((at - at.mean(axis=0)) ** 2).sum(axis=1).argmin()]
                box = {"boxstyle": "circle,pad=0.2", "fc": "white", "ec": "0.4", "alpha": 0.85}
                ax.text(
                    xs[middle[1]],
                    ys[middle[0]],
                    str(j),
                    ha="center",
                    va="center",
                    fontsize=8,
                    bbox=box,
                )
        ax.set(xlabel=self.names[0], ylabel=self.names[1], xlim=extent[:2], ylim=extent[2:])

    def _plot_weights(self, ax: Axes) -> None:
        columns = largest_columns(self.weights, MOST_COLUMNS)
        order = np.argsort(-self.shares, kind="stable")
        shown = self.weights[np.ix_(order, columns)]
        most = np.abs(shown).max() or 1.0
        image = ax.imshow(shown, cmap=SIGNED, vmin=-most, vmax=most, aspect="auto")
        ax.figure.colorbar(image, ax=ax, label="weight in scaled columns")
        labels = [f"{j}: {self.shares[j]:.1%}" for j in order]
        ax.set_yticks(range(len(order)), labels, fontsize=8)
        names = [self.names[d] for d in columns]
        ax.set_xticks(range(len(columns)), names, rotation=90, fontsize=8)
        ax.set(xlabel="column", ylabel="component: share of the rows")


def _extent(
    estimator: SVMMixtureClassifier, rows: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The grid's coordinates along both columns."""
    if rows is not None:
        low, high = rows.min(axis=0), rows.max(axis=0)
    else:
        factor, shift = estimator.problem_.factor, estimator.problem_.shift
        size = np.ones(2) if factor is None else np.where(factor > 0, factor, 1.0)
        middle = np.zeros(2) if shift is None else shift
        low, high = middle - 2 / size, middle + 2 / size
    margin = 0.04 * np.where(high > low, high - low, 1.0)
    low, high = low - margin, high + margin
    xs, ys = (np.linspace(a, b, GRID_POINTS) for a, b in zip(low, high, strict=True))
    return xs, ys
