"""Pictures of terms of two columns: a heat map of each, and beside it where the rows lie.

A model that knows its covariance has a map of the half widths of bands between the two, in the
units of the term: what is smaller than that may be noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri

from ...estimator.colours import SIGNED
from ...estimator.report.figures import BAND, MOST_COLUMNS, MOST_ROWS, HeatMap
from ...estimator.restored import output_labels
from ...estimator.rows.encoding import feature_names
from ..pairs import PairTable
from .figures import HasCurves, decision_unit, shortened, tick_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

MOST_PAIRS = 4
"""Pairs that are drawn by default, those of largest importance."""
MOST_LETTERS = 12
"""Letters of the name of a value."""


class HasPairs(HasCurves, Protocol):
    """A fitted additive model, by what is drawn of its pairs."""

    @property
    def pair_tables_(self) -> list[PairTable]: ...
    def _pair_deviation(self, i: int) -> np.ndarray: ...


class PairPanel(NamedTuple):
    """A term of two columns, of one class, as it is drawn."""

    columns: tuple[str, str]
    """Names of the columns along the rows and the columns of the table."""
    labels: tuple[list[str], list[str]]
    """Names of the values at its nodes."""
    table: np.ndarray
    """(k, l) what the term adds to the decision."""
    density: np.ndarray
    """(k, l) share of the training rows at each node."""
    of_class: str
    """The class whose decision it is; empty of a model with one decision."""
    deviation: np.ndarray | None = None
    """(k, l) standard deviations of the table; None: they are not known, or not drawn."""

    @property
    def n_maps(self) -> int:
        """Number of maps that are drawn of it."""
        return 2 + (self.deviation is not None)

    @property
    def title(self) -> str:
        """``a & b``, with the class if there are several."""
        both = " & ".join(self.columns)
        return f"{both}, {self.of_class}" if self.of_class else both


def drawn_pairs(model: HasPairs) -> list[int]:
    """Numbers of the pairs that have a term and matter most, the largest first."""
    sizes = model.term_importances_[model.bases_.n_columns :]
    order = np.argsort(-sizes, kind="stable").tolist()
    return [i for i in order if model.pair_tables_[i].density.size][:MOST_PAIRS]


def pair_panels(
    model: HasPairs, chosen: Sequence[int], classes: Sequence[int] | None, *, bands: bool
) -> list[PairPanel]:
    """The panels of some pairs; of several classes those with these numbers.

    None: the class whose table varies most.  `bands`: with their deviations, where they are known.
    """
    names, panels = feature_names(model), []
    for i in chosen:
        pair = model.pair_tables_[i]
        d, e = pair.columns
        labels = tuple(
            tick_labels(nodes, model.levels_.get(names[column]))
            for column, nodes in zip(pair.columns, pair.nodes, strict=True)
        )
        tables = pair.by_output
        of_classes: Sequence[int] = [0]
        if tables.shape[2] > 1:
            widest = int(np.ptp(tables, axis=(0, 1)).argmax())
            of_classes = [widest] if classes is None else classes
        deviations = None
        if bands and hasattr(model, "effective_dof_"):  # it knows its covariance
            found = model._pair_deviation(i)
            if np.isfinite(found).all():  # of a term that was edited they are not known
                deviations = found.reshape(tables.shape)
        for k in of_classes:
            label = str(output_labels(model)[k]) if tables.shape[2] > 1 else ""
            panels.append(
                PairPanel(
                    (names[d], names[e]),
                    (labels[0], labels[1]),
                    tables[:, :, k],
                    pair.density,
                    label,
                    None if deviations is None else deviations[:, :, k],
                )
            )
    return panels


def draw_pair(panel: PairPanel, axes: Sequence[Axes], most: float, coverage: float) -> None:
    """Draw the table on the first of the axes and the rows on the last; `most` is full colour.

    Between them the half widths of bands that cover the table as often as `coverage` says.
    """
    limit = most or 1.0
    shown: list[tuple[str, np.ndarray, str | Colormap, float, float | None]] = [
        (panel.title, panel.table, SIGNED, -limit, limit)
    ]
    if panel.deviation is not None:
        reach = float(ndtri(0.5 + 0.5 * coverage)) * panel.deviation
        # where no row lies they are far wider, and would leave no colours for the others
        widest = float(reach[panel.density > 0].max(initial=0.0)) or None
        shown.append((f"half width of {100 * coverage:g} % bands", reach, "Purples", 0.0, widest))
    shown.append(("share of the rows", panel.density, "Greys", 0.0, None))
    for ax, (title, values, colours, low, high) in zip(axes, shown, strict=True):
        image = ax.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto", origin="lower")
        ax.figure.colorbar(image, ax=ax)
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel(panel.columns[1], fontsize="small")
        for axis, names in zip((ax.yaxis, ax.xaxis), panel.labels, strict=True):
            at = np.unique(np.linspace(0, len(names) - 1, min(len(names), 10)).astype(int))
            axis.set_ticks(at, [shortened(names[j], MOST_LETTERS) for j in at], fontsize="x-small")
        ax.tick_params(axis="x", labelrotation=90)
        if ax is axes[0]:
            ax.set_ylabel(panel.columns[0], fontsize="small")


def maps_of(model: HasPairs) -> list[HeatMap]:
    """The heat maps of the largest pairs, each with those of its bands and of the rows after it."""
    figures = []
    for panel in pair_panels(model, drawn_pairs(model), None, bands=True):
        kept = [
            _fullest(panel.density.sum(axis=1 - axis), most)
            for axis, most in enumerate((MOST_ROWS, MOST_COLUMNS))
        ]
        rows, columns = (
            [names[j] for j in own] for names, own in zip(panel.labels, kept, strict=True)
        )
        notes = [f"rows: {panel.columns[0]}; columns: {panel.columns[1]}"]
        if any(len(own) < len(names) for own, names in zip(kept, panel.labels, strict=True)):
            notes.append("the values that most rows have")
        note, at = "; ".join(notes), np.ix_(*kept)
        figures.append(
            HeatMap(panel.title, decision_unit(model), rows, columns, panel.table[at], note)
        )
        if panel.deviation is not None:
            reach, name = BAND * panel.deviation[at], f"{panel.title}: half width of the band"
            figures.append(HeatMap(name, decision_unit(model), rows, columns, reach, note))
        share = f"{' & '.join(panel.columns)}: share of the rows"
        figures.append(HeatMap(share, "share", rows, columns, panel.density[at], note))
    return figures


def _fullest(share: np.ndarray, most: int) -> np.ndarray:
    """The values that most rows have, in their own order."""
    return np.sort(np.argsort(-share, kind="stable")[:most])
