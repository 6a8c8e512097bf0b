"""Pictures of single rows: how the terms add up from the intercept to the decision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...data.source import Chunk
from ...estimator.colours import NEGATIVE, POSITIVE
from ...estimator.model import Model
from ...estimator.predicting import answer_chunk, run
from ...estimator.restored import output_labels
from ...estimator.row_size import NUMBER_BYTES, RowSize
from ...estimator.rows.encoding import feature_names
from ...estimator.rows.inputs import open_features
from ...passes.fold import Fold
from ..targets import column_of
from .figures import (
    MISSING,
    OTHER,
    HasCurves,
    decision_unit,
    is_category,
    output_name,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 12
"""Rows of a picture, which has a panel for each."""
MOST_BARS = 8
"""Terms of a row that have a bar of their own by default."""
MOST_LETTERS = 32
"""Letters of the name of a bar."""
_WIDTH, _HEIGHT, _BAR, _LETTER = 3.6, 1.0, 0.26, 0.07
"""Inches: of a panel without names, of what is around its bars, of a bar, of a letter of a name."""
_WIDEST = 15.0
"""Inches that a figure is wide at most."""
_MARGIN = 0.2
"""Room for numbers on both sides, as a share of the bars' range."""


class Explains(HasCurves, Model, Protocol):
    """A fitted additive model, by what is drawn of its rows."""

    intercept_: np.ndarray


class RowSum(NamedTuple):
    """The sum of one row: bars that lead from the intercept to the decision."""

    title: str
    """Number of the row, and the class whose decision it is if there are several."""
    base: float
    """The intercept, where the first bar starts."""
    labels: list[str]
    """Names of the bars: the term and the row's value, or how many other terms are in one."""
    sizes: np.ndarray
    """(m,) what each bar adds to the decision."""
    number: int
    """Number of the row in X."""

    @property
    def ends(self) -> np.ndarray:
        """(m,) where each bar ends; the last end is the decision."""
        ends: np.ndarray = self.base + np.cumsum(self.sizes)
        return ends


class WaterfallDisplay:
    """Sums of single rows of a fitted additive model, from the intercept to the decision.

    `from_estimator` makes it.  Each row has a panel.  Its bars follow one another downwards, each
    from where the last one ended: the largest terms first, beside each name the row's value, and
    all other terms in one bar.  Blue bars add to the decision, orange ones take from it.  Dotted
    lines are the intercept, which is the decision of an average row, and the row's decision.

    Attributes
    ----------
    rows : list of RowSum
        The bars of each row: ``labels``, ``sizes`` and ``ends``, and ``base``, the intercept.
    axes_ : array of Axes
    figure_ : Figure
    """

    def __init__(self, rows: Sequence[RowSum], *, unit: str = "") -> None:
        self.rows, self.unit = list(rows), unit

    @classmethod
    def from_estimator(
        cls,
        estimator: Explains,
        X: object,
        *,
        rows: Sequence[int] | None = None,
        n_terms: int = MOST_BARS,
        label: object = None,
        ax: Axes | Sequence[Axes] | None = None,
    ) -> WaterfallDisplay:
        """Explain rows with a fitted model, and draw their sums.

        Parameters
        ----------
        estimator : fitted AdditiveClassifier or AdditiveRegressor
        X : anything `predict` takes
            At most 12 rows, unless `rows` chooses among them.
        rows : sequence of int, optional
            Numbers of the rows to draw, counted from 0, at most 12; they are drawn in the order of
            X.  Default: all rows of X.
        n_terms : int, default=8
            Terms with a bar of their own; all others share one.
        label : optional
            With more than two classes, the class whose decision is drawn; default: for each row the
            class of the largest decision.  With several quantiles, the quantile; default the one
            in the middle.
        ax : array of Axes, optional
            One for each row; default: a new figure.

        Returns
        -------
        WaterfallDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from streamlearn import AdditiveRegressor, WaterfallDisplay
        >>> X = np.random.default_rng(0).random((500, 2))
        >>> model = AdditiveRegressor(C=100).fit(X, 4 * X[:, 0] + X[:, 1])
        >>> row = WaterfallDisplay.from_estimator(model, [[0.75, 0.5]]).rows[0]
        >>> row.labels, row.sizes.round(1)
        (['x0 = 0.75', 'x1 = 0.5'], array([0.9, 0. ]))
        """
        check_is_fitted(estimator)
        if isinstance(n_terms, bool) or not isinstance(n_terms, int | np.integer) or n_terms < 1:
            raise ValueError(f"n_terms={n_terms!r} must be an integer of at least 1")
        chosen = _chosen_class(estimator, label)
        sums = _few_sums(estimator, X, _numbers(rows), chosen, int(n_terms))
        return cls(sums, unit=decision_unit(estimator)).plot(ax=ax)

    def plot(self, *, ax: Axes | Sequence[Axes] | None = None) -> WaterfallDisplay:
        """Draw; `ax` as in `from_estimator`."""
        if ax is None:
            axes = _new_axes(self.rows)
        else:
            axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(axes) != len(self.rows):
            raise ValueError(f"got {len(axes)} axes for {len(self.rows)} rows, which take one each")
        self.axes_, self.figure_ = axes, axes[0].figure
        for row, panel in zip(self.rows, axes, strict=True):
            _draw(row, panel)
            panel.set_xlabel(self.unit, fontsize="small")
        return self


def _chosen_class(model: Explains, label: object) -> int | None:
    """Number of the class or quantile to draw; None: the only one, or each row's largest."""
    labels = output_labels(model)
    if label is None:
        return len(labels) // 2 if labels and not hasattr(model, "classes_") else None
    if not labels:
        raise ValueError(
            f"label={label!r}: the model has one decision, not one for each class; leave label out"
        )
    if label not in labels:
        raise ValueError(f"label={label!r} is to be one of {labels[:10]}")
    return labels.index(label)


def _numbers(rows: Sequence[int] | None) -> np.ndarray | None:
    """The numbers of the rows to draw, ascending; None: all."""
    if rows is None:
        return None
    numbers = np.unique(np.asarray(rows))
    if not len(numbers) or numbers.dtype.kind not in "iu" or numbers[0] < 0:
        raise ValueError(f"rows={rows!r} must be numbers of rows of X, counted from 0")
    _check_count(len(numbers))
    return numbers


def _few_sums(
    model: Explains, X: object, numbers: np.ndarray | None, chosen: int | None, n_terms: int
) -> list[RowSum]:
    """The sums of the rows of X of these numbers, or of all, in one read; at most `MOST_ROWS`."""
    dataset = open_features(model, X)
    if numbers is None:
        _check_count(dataset.n_rows or 0)  # 0: it is known once they are read
    fold: Fold[list[RowSum], list[RowSum]]
    fold = Fold(list, partial(_add_sums, model, numbers, chosen, n_terms), _join)
    # at most `MOST_ROWS` rows are explained, the others left out before, by their numbers
    rows: list[RowSum] = run(model, dataset, fold, name="explain", row=RowSize(4 * NUMBER_BYTES))
    if numbers is not None and len(rows) < len(numbers):
        missing = np.setdiff1d(numbers, [row.number for row in rows]).tolist()
        raise ValueError(
            f"X has no rows of the numbers {missing}, which are counted from 0; name rows that it "
            "has"
        )
    if not rows:
        raise ValueError("X has no rows: there is nothing to draw")
    return rows


def _check_count(n_rows: int) -> None:
    if n_rows > MOST_ROWS:
        raise ValueError(
            f"more than {MOST_ROWS} rows are to be drawn, and each takes a panel; name some of "
            "them, such as rows=[0, 17]"
        )


def _add_sums(
    model: Explains,
    numbers: np.ndarray | None,
    chosen: int | None,
    n_terms: int,
    rows: list[RowSum],
    chunk: Chunk,
) -> list[RowSum]:
    if numbers is not None:
        chunk = chunk.where(np.isin(chunk.numbers, numbers))
    _check_count(len(rows) + chunk.n_rows)
    return rows + _sums_of(model, chunk, chosen, n_terms) if chunk.n_rows else rows


def _join(a: list[RowSum], b: list[RowSum]) -> list[RowSum]:
    _check_count(len(a) + len(b))
    return a + b


def _sums_of(model: Explains, chunk: Chunk, chosen: int | None, n_terms: int) -> list[RowSum]:
    """The sums of the rows of a chunk."""
    terms = answer_chunk(model, chunk, "explanation")
    terms = terms.reshape(chunk.n_rows, terms.shape[1], -1)
    decisions = terms.sum(axis=1) + model.intercept_
    # constant columns have no term; an offset or exposure has one, but no curve
    kept = np.diff(model.bases_.first) > 0
    column = getattr(model, "_column_of_mean", -1)
    if column >= 0:
        kept[column] = True
    places = np.flatnonzero(kept)
    several = terms.shape[2] > 1
    found = []
    for i, number in enumerate(chunk.numbers.tolist()):
        k = int(decisions[i].argmax()) if chosen is None else chosen
        own = terms[i, places, k]
        order = np.argsort(-np.abs(own), kind="stable")
        # one term is named, rather than counted
        n_named = len(order) if len(order) <= n_terms + 1 else n_terms
        named, rest = order[:n_named], order[n_named:]
        labels = [_label(model, int(places[j]), chunk, i) for j in named]
        sizes = own[named]
        if len(rest):
            labels.append(f"{len(rest):,} other terms")
            sizes = np.append(sizes, own[rest].sum())
        title = f"row {number}"
        if several:
            title += f", {output_name(model, k)}"
        found.append(RowSum(title, float(model.intercept_[k]), labels, sizes, number))
    return found


def _label(model: Explains, term: int, chunk: Chunk, i: int) -> str:
    """The name of a term, with what row i of the chunk has in its columns."""
    p = model.bases_.n_columns
    columns = (term,) if term < p else model.bases_.pair_columns[term - p]
    values = ", ".join(_value(model, d, column_of(chunk, d)[i]) for d in columns)
    return f"{shortened(model.term_names_[term], MOST_LETTERS)} = {values}"


def _value(model: Explains, d: int, value: float) -> str:
    """The value of column d in words."""
    if not is_category(model, d):
        return MISSING if np.isnan(value) else f"{value:.4g}"
    if np.isnan(value):  # they share a level
        return f"{OTHER} or {MISSING}"
    return shortened(model.levels_[feature_names(model)[d]][int(value)], MOST_LETTERS // 2)


def _draw(row: RowSum, panel: Axes) -> None:
    """Bars from the top down, each with its size at its end."""
    at, ends = np.arange(len(row.sizes)), row.ends
    starts = np.append(row.base, ends[:-1])
    colours = [POSITIVE if size >= 0 else NEGATIVE for size in row.sizes]
    panel.barh(at, row.sizes, left=starts, height=0.7, color=colours)
    for j, size in enumerate(row.sizes):
        if j + 1 < len(at):  # where one bar ends the next one starts
            panel.plot([ends[j]] * 2, [j + 0.35, j + 0.65], color="0.6", linewidth=0.8)
        rises = size >= 0
        panel.annotate(
            f"{size:+.3g}",
            (ends[j], j),
            (3 if rises else -3, 0),
            textcoords="offset points",
            fontsize="x-small",
            ha="left" if rises else "right",
            va="center",
            bbox={"facecolor": panel.get_facecolor(), "edgecolor": "none", "pad": 0.5},
        )
    final = ends[-1] if len(ends) else row.base
    for place in (row.base, final):
        panel.axvline(place, color="0.6", linewidth=0.8, linestyle=":", zorder=0.5)
    panel.locator_params(axis="x", nbins=6)
    panel.tick_params(axis="x", labelsize="small")
    panel.set_yticks(at, row.labels, fontsize="small")
    panel.set_ylim(len(at) - 0.4, -0.6)
    places = np.append(ends, row.base)
    low, high = float(places.min()), float(places.max())
    room = _MARGIN * ((high - low) or 1.0)
    panel.set_xlim(low - room, high + room)
    panel.set_title(f"{row.title}: {row.base:.3g} to {final:.3g}", fontsize="medium")


def _new_axes(rows: Sequence[RowSum]) -> np.ndarray:
    """Axes of a new figure: as many panels in each row of them as can be, three at most."""
    import matplotlib.pyplot as plt

    letters = max((len(label) for row in rows for label in row.labels), default=0)
    wide = _WIDTH + _LETTER * letters
    n_high = -(-len(rows) // min(3, int(_WIDEST // wide)))
    n_wide = -(-len(rows) // n_high)
    tall = _HEIGHT + _BAR * max(len(row.labels) for row in rows)
    figure = plt.figure(figsize=(wide * n_wide, tall * n_high), layout="constrained")
    grid = figure.add_gridspec(n_high, n_wide)
    axes = [figure.add_subplot(grid[divmod(k, n_wide)]) for k in range(len(rows))]
    return np.array(axes, dtype=object)
