"""Pictures of super-sparse models: prototypes, the curve of their number, and the plane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..estimator.colours import NEGATIVE, POSITIVE, TWO_CLASSES
from ..estimator.rows.encoding import feature_names, n_features
from ..estimator.rows.inputs import rows_to_draw
from .estimators import SuperSparseClassifier, SuperSparseRegressor
from .estimators_cv import SuperSparseClassifierCV, SuperSparseRegressorCV

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

MOST_PANELS = 20
"""Prototypes that are drawn, at most."""
GRID_POINTS = 120
"""Points of the plane along each column."""
_PANEL_INCHES = 1.6


class PrototypeDisplay:
    """The prototypes of a super-sparse model, sorted by coefficient (Biggio 2015, fig. 6).

    `from_estimator` makes it.  With `shape` each prototype is an image, otherwise it has a bar for
    each feature.  Titles are the coefficients.

    Attributes
    ----------
    prototypes : (m, p) array
        Prototypes by falling coefficient.
    coefficients : (m,) array
        Coefficients of the prototypes.
    axes_ : array of Axes
    figure_ : Figure
    """

    def __init__(
        self,
        prototypes: np.ndarray,
        coefficients: np.ndarray,
        *,
        names: list[str],
        shape: tuple[int, int] | None = None,
    ) -> None:
        self.prototypes, self.coefficients = prototypes, coefficients
        self.names, self.shape = names, shape

    @classmethod
    def from_estimator(
        cls,
        estimator: SuperSparseClassifier | SuperSparseRegressor,
        *,
        shape: tuple[int, int] | None = None,
        label: object = None,
        decode: Callable[[np.ndarray], npt.ArrayLike] | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> PrototypeDisplay:
        """Draw the prototypes of a fitted model.

        Parameters
        ----------
        estimator : fitted super-sparse model
        shape : (height, width), optional
            Draw each prototype as an image of this shape.
        label : optional
            The class whose coefficients sort the prototypes, if there are more than two; default:
            the first.
        decode : callable, optional
            Makes of the prototypes (m, p) what is drawn (m, q), such as ``pca.inverse_transform``.
        ax : array of Axes, optional
            Axes for each prototype; default: a new figure of the 20 with the largest coefficients.
        """
        check_is_fitted(estimator)
        row = 0
        if len(estimator.coef_) > 1:
            classes = estimator.classes_.tolist()
            label = classes[0] if label is None else label
            if label not in classes:
                raise ValueError(f"label={label!r} is none of the classes {classes[:10]}")
            row = classes.index(label)
        beta, Z = estimator.coef_[row], estimator.prototypes_
        drawn = Z if decode is None else np.asarray(decode(Z), np.float64)
        if drawn.ndim != 2 or len(drawn) != len(Z):
            raise ValueError(
                f"decode returned shape {drawn.shape} for {len(Z)} prototypes; expected (m, q)"
            )
        if shape is not None and shape[0] * shape[1] != drawn.shape[1]:
            raise ValueError(
                f"shape={shape} holds {shape[0] * shape[1]} values, a prototype {drawn.shape[1]}"
            )
        most = MOST_PANELS if ax is None else len(beta)
        shown = np.argsort(-np.abs(beta), kind="stable")[:most]
        shown = shown[np.argsort(-beta[shown], kind="stable")]
        names = feature_names(estimator)
        if decode is not None:
            names = [f"x{d}" for d in range(drawn.shape[1])]
        display = cls(drawn[shown], beta[shown], names=[str(n) for n in names], shape=shape)
        return display.plot(ax=ax)

    def plot(self, *, ax: Sequence[Axes] | None = None) -> PrototypeDisplay:
        """Draw on axes for each prototype; default: in a new figure."""
        m = len(self.prototypes)
        given = _new_axes(m, wide=self.shape is None) if ax is None else ax
        axes = np.atleast_1d(np.asarray(given, dtype=object)).ravel()
        if len(axes) != m:
            raise ValueError(f"got {len(axes)} axes for {m} prototypes")
        self.axes_, self.figure_ = axes, axes[0].figure
        low, high = float(self.prototypes.min()), float(self.prototypes.max())
        for panel, z, beta in zip(axes, self.prototypes, self.coefficients, strict=True):
            panel.set_title(f"{beta:+.3g}", fontsize="small")
            if self.shape is not None:
                panel.imshow(z.reshape(self.shape), cmap="gray", vmin=low, vmax=high)
                panel.set_axis_off()
                continue
            panel.barh(np.arange(len(z)), z, color=POSITIVE if beta > 0 else NEGATIVE)
            panel.set_xlim(min(low, 0.0), max(high, 0.0) or 1.0)
            panel.invert_yaxis()
            few = len(z) <= 12
            panel.set_yticks(np.arange(len(z)) if few else [], self.names if few else [])
            panel.tick_params(labelsize="x-small")
        return self

    @staticmethod
    def curve(
        estimator: SuperSparseClassifierCV | SuperSparseRegressorCV, *, ax: Axes | None = None
    ) -> Axes:
        """Draw loss against the number of prototypes of a fitted ``...CV`` model; the Axes.

        Dots are the splits, the line is their mean, and the ring marks the chosen number.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "curve_"):
            raise TypeError(
                f"{type(estimator).__name__} has tried one number of prototypes; fit "
                f"{type(estimator).__name__}CV for a curve"
            )
        ax = _one_axes(ax)
        sizes, loss, _ = estimator.curve_
        mean = np.nanmean(loss, axis=1)
        ax.plot(sizes, loss, ".", color="0.6", markersize=4)
        ax.plot(sizes, mean, "-", color="C0")
        at = int(np.flatnonzero(sizes == estimator.n_prototypes_)[0])
        ax.plot(sizes[at], mean[at], "o", color="C3", fillstyle="none", markersize=9)
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [str(m) for m in sizes])
        ax.set_xlabel("prototypes")
        ax.set_ylabel("held-out errors" if hasattr(estimator, "classes_") else "held-out MSE")
        return ax

    @staticmethod
    def plane(
        estimator: SuperSparseClassifier | SuperSparseRegressor,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the decision of a model of two columns over the plane; the Axes.

        The rows `X` (n, 2) are shown in colours by `y`.  Stars are the prototypes, open where their
        coefficient is negative.  Regressors are drawn by value, classifiers by class.
        """
        check_is_fitted(estimator)
        X = rows_to_draw(X)
        if X.ndim != 2 or X.shape[1] != 2 or n_features(estimator) != 2:
            raise ValueError(
                f"a plane needs a model and rows of 2 columns; the model has "
                f"{n_features(estimator)}, X is {X.shape}"
            )
        ax = _one_axes(ax)
        Z = estimator.prototypes_
        both = np.vstack([X, Z])
        margin = 0.08 * np.ptp(both, axis=0)
        low, high = both.min(axis=0) - margin, both.max(axis=0) + margin
        a, b = (np.linspace(low[d], high[d], GRID_POINTS) for d in (0, 1))
        grid = np.column_stack([g.ravel() for g in np.meshgrid(a, b)])
        classify = isinstance(estimator, SuperSparseClassifier)
        if isinstance(estimator, SuperSparseClassifier):
            value = np.searchsorted(estimator.classes_, estimator.predict(grid)).astype(float)
        else:
            value = estimator.predict(grid)
        value = value.reshape(GRID_POINTS, GRID_POINTS)
        ax.contourf(a, b, value, levels=12, cmap=TWO_CLASSES if classify else "viridis", alpha=0.5)
        if isinstance(estimator, SuperSparseClassifier) and len(estimator.classes_) == 2:
            decision = estimator.decision_function(grid).reshape(value.shape)
            ax.contour(a, b, decision, levels=[0.0], colors="k", linewidths=1)
        colour: str | np.ndarray = "0.3"
        if y is not None:
            labels = np.asarray(y)
            colour = np.searchsorted(estimator.classes_, labels) if classify else labels
        ax.scatter(X[:, 0], X[:, 1], c=colour, s=6, cmap=TWO_CLASSES if classify else "viridis")
        positive = estimator.coef_[0] > 0
        ax.scatter(Z[positive, 0], Z[positive, 1], marker="*", s=140, c="k")
        ax.scatter(
            Z[~positive, 0], Z[~positive, 1], marker="*", s=140, facecolors="w", edgecolors="k"
        )
        return ax


def _one_axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    axes: Axes = plt.subplots(figsize=(4.5, 3.5), layout="constrained")[1]
    return axes


def _new_axes(n_panels: int, *, wide: bool) -> np.ndarray:
    """Axes of a new figure, with ten images or five bar charts in a row."""
    import matplotlib.pyplot as plt

    n_wide = min(5 if wide else 10, n_panels)
    n_high = -(-n_panels // n_wide)
    side = _PANEL_INCHES * (1.4 if wide else 1.0)
    figure, axes = plt.subplots(
        n_high,
        n_wide,
        figsize=(side * n_wide, 1.25 * side * n_high),
        squeeze=False,
        layout="constrained",
    )
    for spare in axes.ravel()[n_panels:]:
        spare.remove()
    panels: np.ndarray = axes.ravel()[:n_panels]
    return panels
