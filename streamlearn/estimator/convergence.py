"""A picture of how a fit came to its end: what was proved, read by read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .model import Estimator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EPSILON = float(np.finfo(np.float64).eps)
ONE_READ = "The objective was measured once: there is no way of the fit to draw."


class ConvergenceDisplay:
    """The relative gap and the objective of a fit against its reads.

    Made by `from_estimator`.  The axis of gaps is logarithmic; a gap of 0 is drawn at the rounding
    of float64.  Of several outputs the largest gap and the sum of the objectives are drawn.  A fit
    without a dual has no gap, and its panel is left out.  Boosting is drawn by its rounds: the cost
    at the end of each, the mean over the classes.

    Attributes
    ----------
    reads : (m,) array
        Numbers of the reads after the summary.
    gap, objective, bound, validation_loss : (m,) arrays
        NaN where a read did not measure it.
    axes_ : array of Axes
    figure_ : Figure
    """

    def __init__(
        self,
        history: Sequence[dict[str, object]],
        *,
        tolerance: float | None = None,
        name: str = "",
    ) -> None:
        self.tolerance, self.name = tolerance, name
        history = _joined_rounds(history)
        self.reads = np.array([record.get("read", k + 1) for k, record in enumerate(history)])
        self.gap = _series(history, ("relative_gap", "estimated_gap"), np.max)
        self.objective = _series(
            history, ("objective", "estimated_objective", "gcv", "cost"), np.sum
        )
        self.bound = _series(history, ("dual",), np.sum)
        self.validation_loss = _series(history, ("validation_loss",), np.sum)

    @classmethod
    def from_estimator(cls, estimator: Estimator, *, ax: object = None) -> ConvergenceDisplay:
        """Draw the history of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator of this package
        ax : array of Axes, optional
            One for each panel: gap, objective, and the validation loss if there is one.
        """
        check_is_fitted(estimator)
        certificate = estimator.certificate_
        tolerance = certificate.tolerance if certificate.relative_gap is not None else None
        display = cls(estimator.history_, tolerance=tolerance, name=type(estimator).__name__)
        return display.plot(ax=ax)

    @property
    def has_panels(self) -> bool:
        """Whether the history holds anything to draw."""
        return bool(self._panels())

    def _panels(self) -> list[Callable[[Axes], None]]:
        panels = (
            (self._draw_gap, self.gap),
            (self._draw_objective, self.objective),
            (self._draw_validation, self.validation_loss),
        )
        return [draw for draw, series in panels if np.isfinite(series).any()]

    def plot(self, *, ax: object = None) -> ConvergenceDisplay:
        """Draw; `ax` as in `from_estimator`."""
        panels = self._panels()
        if not panels:
            raise ValueError("the fit kept no history: there is nothing to draw")
        if ax is None:
            import matplotlib.pyplot as plt

            size = (3.6 * len(panels), 3.0)
            ax = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")[1]
        axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(axes) != len(panels):
            raise ValueError(f"got {len(axes)} axes for {len(panels)} panels")
        self.axes_, self.figure_ = axes, axes[0].figure
        for panel, draw in zip(axes, panels, strict=True):
            draw(panel)
            if len(self.reads) == 1:
                panel.text(0.5, 0.04, "measured once", transform=panel.transAxes, ha="center",
                           color="0.4", fontsize="small")  # fmt: skip
            panel.set_xlabel("reads after the summary")
            panel.xaxis.get_major_locator().set_params(integer=True)
        return self

    def _draw_gap(self, panel: Axes) -> None:
        panel.plot(self.reads, np.maximum(self.gap, EPSILON), marker="o", markersize=3)
        panel.set_yscale("log")
        if self.tolerance is not None:
            panel.axhline(self.tolerance, color="0.5", linestyle="--", linewidth=1)
            panel.annotate(
                "tol", (1, self.tolerance), xycoords=("axes fraction", "data"),
                ha="right", va="bottom", color="0.4", fontsize="small",
            )  # fmt: skip
        panel.set_title("relative gap", fontsize="medium")

    def _draw_objective(self, panel: Axes) -> None:
        for series, label in ((self.objective, "objective"), (self.bound, "lower bound")):
            # A bound far below, as first reads have it, would flatten all that follows.
            near = series > _floor(self.objective)
            if near.any():
                panel.plot(self.reads[near], series[near], marker="o", markersize=3, label=label)
        panel.legend(fontsize="small")
        panel.set_title("objective", fontsize="medium")

    def _draw_validation(self, panel: Axes) -> None:
        panel.plot(self.reads, self.validation_loss, marker="o", markersize=3, color="C2")
        panel.set_title("validation loss", fontsize="medium")


def _floor(objective: np.ndarray) -> float:
    low, high = np.nanmin(objective), np.nanmax(objective)
    return float(low - max(high - low, 0.05 * abs(low)))


def _joined_rounds(history: Sequence[dict[str, object]]) -> Sequence[dict[str, object]]:
    """The records, those of each class's rounds of boosting as one record a round.

    A class whose rounds have ended keeps its last cost.
    """
    costs: dict[object, dict[object, list[float]]] = {}
    others = []
    for record in history:
        if "label" not in record:
            others.append(record)
            continue
        of_strength = costs.setdefault(record["tau"], {})
        last = np.asarray(record["costs"])[-1]
        of_strength.setdefault(record["label"], []).append(float(last))
    rounds: list[dict[str, object]] = []
    for of_strength in costs.values():
        for k in range(max(map(len, of_strength.values()))):
            ends = [own[min(k, len(own) - 1)] for own in of_strength.values()]
            rounds.append({"objective": float(np.mean(ends))})
    return [*rounds, *others]


def _series(
    history: Sequence[dict[str, object]],
    keys: Sequence[str],
    reduce: Callable[[np.ndarray], float],
) -> np.ndarray:
    """The first of the keys that each record has; NaN without any."""
    out = np.full(len(history), np.nan)
    for k, record in enumerate(history):
        values = [record[key] for key in keys if record.get(key) is not None]
        if values:
            out[k] = reduce(np.asarray(values[0]))
    return out
