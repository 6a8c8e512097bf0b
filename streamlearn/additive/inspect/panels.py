"""Panels of a picture of an additive model: a column's curve or bars, and where its rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .figures import MISSING, Shares, shortened, spans_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TICKS = 24
"""Bars of a panel that all have a label; of more a few have one, and the panel says how many."""
FEW_TICKS = 8
MOST_LETTERS = 32
"""Largest number of characters, over all tick labels of a panel, that are drawn level."""
PANEL_INCHES = (3.2, 2.4)
"""Width and height of a panel of a new figure."""


def draw_lines(
    panel: Axes, grid: np.ndarray, curve: np.ndarray, *, points: bool
) -> Sequence[object]:
    """A line a class, with a point at each value if `points`; missing values have one beside it."""
    there = np.isfinite(grid)
    marker = "o" if points else ""
    handles = panel.plot(grid[there], curve[there], marker=marker, markersize=3, linewidth=1.5)
    if not there.all():
        at = _missing_place(grid)
        for handle, f in zip(handles, np.atleast_1d(curve[-1]), strict=True):
            panel.plot([at], [f], "o", markersize=4, color=handle.get_color())
        panel.axvline(0.5 * (at + grid[-2]), color="0.8", linewidth=0.8, linestyle=":", zorder=0.5)
        panel.text(at, -0.03, MISSING, rotation=90, fontsize="x-small", ha="center", va="top",
                   transform=panel.get_xaxis_transform())  # fmt: skip
    return handles


def draw_bands(
    panel: Axes,
    handles: Sequence[Any],
    grid: np.ndarray,
    curve: np.ndarray,
    reach: np.ndarray,
    is_category: bool,
) -> None:
    """Bands around lines, whiskers on bars and on the dot of missing values."""
    curves, reaches = curve.reshape(len(curve), -1), reach.reshape(len(curve), -1)
    there = np.isfinite(grid)
    for handle, f, r in zip(handles, curves.T, reaches.T, strict=True):
        if is_category:
            at = [bar.get_x() + 0.5 * bar.get_width() for bar in handle]
            panel.errorbar(at, f, r, fmt="none", ecolor="0.3", elinewidth=0.8, capsize=1.5)
            continue
        colour = handle.get_color()
        low, high = (f - r)[there], (f + r)[there]
        panel.fill_between(grid[there], low, high, color=colour, alpha=0.25, linewidth=0)
        if not there.all():
            at = [_missing_place(grid)]
            panel.errorbar(
                at, f[-1:], r[-1:], fmt="none", ecolor=colour, elinewidth=0.8, capsize=1.5
            )


def _missing_place(grid: np.ndarray) -> float:
    """The place beside the line at which missing values are drawn."""
    return float(grid[-2] + 0.1 * (float(grid[-2] - grid[0]) or 1.0))


def draw_bars(panel: Axes, labels: list[str], curve: np.ndarray) -> Sequence[object]:
    """One bar a value, evenly spaced; side by side for several classes."""
    n = len(labels)
    columns = curve.reshape(n, -1)
    width = 0.8 / columns.shape[1]
    places = np.arange(n) - 0.4 + width / 2
    handles = [panel.bar(places + k * width, f, width) for k, f in enumerate(columns.T)]
    shown = np.arange(n)
    if n > MOST_TICKS:
        shown = np.unique(np.linspace(0, n - 1, FEW_TICKS).astype(int))
        panel.set_xlabel(f"{n} values, {len(shown)} of them named", fontsize="x-small")
    named = [shortened(labels[at], MOST_LETTERS // 2) for at in shown]
    panel.set_xticks(shown, named)
    longest = max(map(len, named))
    if (longest + 1) * len(shown) > MOST_LETTERS:
        panel.tick_params(axis="x", labelrotation=90, labelsize="x-small")
    return handles


def draw_density(
    panel: Axes, density: Shares, floor: float, height: float, grid: np.ndarray, is_category: bool
) -> None:
    """Grey bars on the panel's floor, the fullest of this height."""
    if is_category:
        left, share = np.arange(len(density.share)) - 0.4, density.share
        right, at, wide = left + 0.8, float(len(left)), 0.8
    else:
        left, right, share = spans_of(density)
        at, wide = _missing_place(grid), right[0] - left[0]
    if np.isnan(grid[-1]):
        share = np.append(share, density.missing)
        left, right = np.append(left, at - wide / 2), np.append(right, at + wide / 2)
    tall = height * share / (share.max() or 1.0)
    panel.bar(left, tall, right - left, bottom=floor, align="edge", color="0.85", zorder=0)


def new_axes(n_curves: int, n_maps: Sequence[int], share_y: bool) -> np.ndarray:
    """Axes of a new figure, four panels a row; maps begin a row, and share no axis.

    `n_maps`: those of each pair, which stand in one row.
    """
    import matplotlib.pyplot as plt

    n_wide = max(min(4, n_curves), min(4, sum(n_maps)))
    n_high = -(-n_curves // n_wide)
    places, row, column = [], n_high, 0
    for n in n_maps:
        if column + n > n_wide:
            row, column = row + 1, 0
        places += [(row, column + k) for k in range(n)]
        column += n
    n_rows = row + bool(places)
    width, height = PANEL_INCHES
    figure = plt.figure(figsize=(width * n_wide, height * n_rows), layout="constrained")
    grid = figure.add_gridspec(n_rows, n_wide)
    axes: list[Axes] = []
    for k in range(n_curves):
        row, column = divmod(k, n_wide)
        shared = axes[0] if axes and share_y else None
        axes.append(figure.add_subplot(grid[row, column], sharey=shared))
        if share_y and column:
            axes[-1].tick_params(labelleft=False)
    axes += [figure.add_subplot(grid[place]) for place in places]
    return np.array(axes, dtype=object)
