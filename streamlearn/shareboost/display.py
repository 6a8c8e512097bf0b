"""Picture of a selection: its path, and which class uses which column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..estimator.colours import SIGNED
from .estimator import ShareBoostClassifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


class ShareBoostDisplay:
    """The path of a `ShareBoostClassifier`, and its weights by class and column.

    `from_estimator` makes it.  The left panel shows the objective by the number selected, with a
    line at the model's own number, and the loss on `validation` if there was one.  The right panel
    has a row for each class and a column for each feature in the order of selection; the weights of
    a feature are divided by their largest, so a column of many strong colours is shared by many
    classes.  For groups and pieces, which have several features, the norm of a class's weights is
    drawn.

    Attributes
    ----------
    path : dict of arrays
        The columns ``n``, ``objective``, ``validation_loss`` of the estimator's `path_`.
    n : int
        Number selected by the model that is drawn.
    weights : (K, n) array
        Weights as they are drawn, between -1 and 1.
    classes, names : list of str
        Names of the rows and the columns of the right panel.
    axes_ : array of Axes
    figure_ : Figure
    """

    def __init__(
        self,
        path: dict[str, np.ndarray],
        n: int,
        weights: np.ndarray,
        classes: list[str],
        names: list[str],
    ) -> None:
        self.path, self.n, self.weights = path, n, weights
        self.classes, self.names = classes, names

    @classmethod
    def from_estimator(
        cls, estimator: ShareBoostClassifier, *, ax: Sequence[Axes] | None = None
    ) -> ShareBoostDisplay:
        """Draw a fitted model.

        Parameters
        ----------
        estimator : fitted ShareBoostClassifier
        ax : array of two Axes, optional
            Where to draw; default: in a new figure.
        """
        check_is_fitted(estimator)
        W = estimator._weights_of_choices()
        if not W.shape[1]:
            raise ValueError("the model uses no column: there are no weights to draw")
        scale = np.abs(W).max(axis=0)
        display = cls(
            {key: estimator.path_[key] for key in ("n", "objective", "validation_loss")},
            len(estimator.choices_),
            W / np.where(scale > 0, scale, 1.0),
            [str(label) for label in estimator.classes_],
            estimator._labels(),
        )
        return display.plot(ax=ax)

    def plot(self, *, ax: Sequence[Axes] | None = None) -> ShareBoostDisplay:
        """Draw on two axes; default: in a new figure."""
        if ax is None:
            import matplotlib.pyplot as plt

            wide = float(np.clip(0.18 * len(self.names), 3.2, 12.0))
            high = float(np.clip(0.3 * len(self.classes), 2.8, 9.0))
            _, ax = plt.subplots(
                1, 2, figsize=(4 + wide, high), layout="constrained", width_ratios=(4, wide)
            )
        axes = np.asarray(ax, dtype=object).ravel()
        if len(axes) != 2:
            raise ValueError(f"got {len(axes)} axes, the display draws on two")
        self.axes_, self.figure_ = axes, axes[0].figure
        left, right = axes
        left.plot(self.path["n"], self.path["objective"], label="objective", linewidth=1.5)
        if not np.isnan(self.path["validation_loss"]).all():
            left.plot(self.path["n"], self.path["validation_loss"], "--", label="validation loss")
        left.axvline(self.n, color="0.6", linewidth=0.8, label=f"drawn: {self.n}")
        left.legend(fontsize="small")
        left.set_xlabel("selected")
        left.set_ylabel("loss")
        left.xaxis.get_major_locator().set_params(integer=True)
        self._plain_log(left.yaxis)
        colours = (SIGNED, -1) if self.weights.min() < 0 else ("Blues", 0)  # norms have no sign
        image = right.imshow(self.weights, cmap=colours[0], vmin=colours[1], vmax=1, aspect="auto")
        right.set_yticks(range(len(self.classes)), self.classes)
        right.set_ylabel("class")
        if len(self.names) <= 40:
            right.set_xticks(range(len(self.names)), self.names, rotation=90, fontsize="x-small")
        else:
            right.set_xlabel("features in the order of selection")
        right.set_title("weight / largest of its feature", fontsize="medium")
        self.figure_.colorbar(image, ax=right, shrink=0.8)
        return self

    def _plain_log(self, axis: Axis) -> None:
        """Make an axis logarithmic, with plain numbers beside it however few decades it spans."""
        from matplotlib.ticker import LogLocator, NullFormatter

        axis.axes.set_yscale("log")
        low, high = axis.axes.get_ylim()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
