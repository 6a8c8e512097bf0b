"""Figures of a model as numbers and words: families give them, `svg` draws them.

A family adds a picture to the report by one more item of its `_figures`; a band around a curve is
two more arrays of its `Curve`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from scipy.special import ndtri

from ..facts import HasFacts
from ..model import Model

BAND = float(ndtri(0.975))
"""Standard deviations of a band that covers its curve 95 times in 100."""
MOST_LINES = 8
"""Lines of one picture, as many as there are colours that can be told apart."""
MOST_ROWS = 24
"""Rows of one picture."""
MOST_COLUMNS = 24
"""Columns of a map."""


class Curve(NamedTuple):
    """Lines over a number, and where the rows lie along it."""

    title: str
    y_label: str
    x: np.ndarray
    """(m,) ascending."""
    y: np.ndarray
    """(m, K); NaN where there is nothing to draw."""
    labels: Sequence[str] = ()
    """Names of the K lines; none of a single one."""
    band: tuple[np.ndarray, np.ndarray] | None = None
    """Lower and upper ends (m, K) of a band around each line."""
    density: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    """Starts and ends (b,) of bars along x, and the shares (b,) of the rows in them."""
    missing: np.ndarray | None = None
    """(K,) value of rows in which the number is missing."""
    missing_band: tuple[np.ndarray, np.ndarray] | None = None
    """Lower and upper ends (K,) of the whisker on each of these values."""
    x_label: str = ""
    steps: bool = False
    """`y` holds from its x to the next."""
    points: bool = False
    """Whether each x has a dot, being one of few values."""
    diagonal: bool = False
    """Whether the line of equal x and y is drawn."""
    note: str = ""


class Rows(NamedTuple):
    """A row for each name: a bar, or a dot for each of several outputs."""

    title: str
    y_label: str
    names: Sequence[str]
    y: np.ndarray
    """(m, K)."""
    labels: Sequence[str] = ()
    band: tuple[np.ndarray, np.ndarray] | None = None
    """Lower and upper ends (m, K) of a whisker on each bar or dot."""
    shares: np.ndarray | None = None
    """(m,) shares of the training rows."""
    note: str = ""


class HeatMap(NamedTuple):
    """A coloured cell for each row and column."""

    title: str
    y_label: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: np.ndarray
    """(rows, columns); blue for positive numbers, orange for negative ones."""
    note: str = ""


Figure: TypeAlias = Curve | Rows | HeatMap


class Reported(HasFacts, Model, Protocol):
    """A fitted model, by what its report asks of it."""

    history_: list[dict[str, object]]

    def _figures(self) -> tuple[str, Sequence[Figure]]: ...
    def _top(self, decision: np.ndarray) -> np.ndarray:
        """Codes of the classes predicted, of a classifier."""


def with_few_lines(figure: Figure) -> Figure:
    """The figure with the `MOST_LINES` lines that vary most; its note says so."""
    if isinstance(figure, HeatMap) or figure.y.shape[1] <= MOST_LINES:
        return figure
    spread = np.nanmax(figure.y, axis=0) - np.nanmin(figure.y, axis=0)
    kept = np.sort(np.argsort(-spread, kind="stable")[:MOST_LINES])
    said = f"the {MOST_LINES} of {figure.y.shape[1]} outputs that vary most"
    note = "; ".join(filter(None, (figure.note, said)))
    figure = figure._replace(
        y=figure.y[:, kept], labels=[figure.labels[k] for k in kept], note=note
    )
    if figure.band is not None:
        figure = figure._replace(band=(figure.band[0][:, kept], figure.band[1][:, kept]))
    if isinstance(figure, Curve):
        if figure.missing is not None:
            figure = figure._replace(missing=figure.missing[kept])
        if figure.missing_band is not None:
            low, high = figure.missing_band
            figure = figure._replace(missing_band=(low[kept], high[kept]))
    return figure
