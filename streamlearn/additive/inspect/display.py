"""Pictures of additive models: one panel a column, the curve that it adds to the decision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from ...estimator.restored import output_labels
from ...estimator.rows.encoding import feature_names
from .comparing import (
    Compared,
    both_curves,
    columns_to_draw,
    distances,
    sides_of,
    with_curves,
)
from .figures import (
    Shares,
    decision_unit,
    drawn_columns,
    grid_of,
    has_points,
    is_category,
    output_name,
    outputs_word,
    tick_labels,
)
from .heat_maps import PairPanel, draw_pair, drawn_pairs, pair_panels
from .panels import draw_bands, draw_bars, draw_density, draw_lines, new_axes
from .summary_table import SummaryTable
from .terms import Terms

MOST_CLASSES = 10
"""Classes that are drawn by default, as many as there are colours."""


class AdditiveDisplay:
    """The learned shape functions of an `AdditiveClassifier` or `AdditiveRegressor`.

    Made by `from_estimator`.  A column of numbers is drawn as a line between its first and last
    knot, with a point at each of its values if they are few, a column of categories as bars.  The
    level of missing values is a dot beside the line, or of categories, with all other words, the
    last bar.  Grey below:
    how many training rows lie there, each panel by itself.  All panels share the vertical axis, so
    heights compare, unless `share_y` is False.  A model fitted with `smoothness` or
    ``covariance=True`` has bands, of one curve at a time: they cover it, on average over x, as
    often as `coverage` says.  A term of two columns (`interactions`) is a heat map at its nodes,
    blue where it adds to the decision, with a map of the share of the rows beside it, and where
    bands are known one of their half widths between the two: what is below that may be noise.

    Attributes
    ----------
    names : list of str
    grids : list of (m,) arrays
        Where each curve is evaluated; last NaN, if missing values have a level.
    curves : list of (m,) or (m, K) arrays
        Its values; K classes with more than two of them.
    deviations : list of (m,) or (m, K) arrays, or None
        Standard deviations of the curves; NaN of those that were edited after the fit.
    densities : list of Density
        Where the training rows lie.
    categories : list of bool
        Whether a column is one of categories, drawn as bars.
    pairs : list of PairPanel
        The terms of two columns, with their ``table``, ``density`` and ``deviation`` (None without
        bands) at ``labels``.
    distances_ : SummaryTable
        Distances of the terms of two models, of a display that `compare` made.
    axes_ : array of Axes
    figure_ : Figure
    """

    distances_: SummaryTable

    def __init__(
        self,
        names: Sequence[str],
        grids: Sequence[np.ndarray],
        curves: Sequence[np.ndarray],
        *,
        densities: Sequence[Shares],
        categories: Sequence[bool],
        levels: Sequence[Sequence[str] | None],
        classes: Sequence[object] | None = None,
        deviations: Sequence[np.ndarray] | None = None,
        coverage: float = 0.95,
        unit: str = "",
        left_out: str = "",
        pairs: Sequence[PairPanel] = (),
    ) -> None:
        self.pairs = list(pairs)
        self.deviations = None if deviations is None else list(deviations)
        self.coverage = coverage
        self.names, self.grids, self.curves = list(names), list(grids), list(curves)
        self.densities, self.categories = list(densities), list(categories)
        self.levels, self.classes = list(levels), classes
        self.unit, self.left_out = unit, left_out

    @classmethod
    def from_estimator(
        cls,
        estimator: Terms,
        *,
        features: Sequence[int | str | tuple[int | str, int | str]] | None = None,
        coverage: float | None = 0.95,
        classes: Sequence[object] | None = None,
        share_y: bool = True,
        ax: object = None,
    ) -> AdditiveDisplay:
        """Evaluate and draw the curves of a fitted model.

        Parameters
        ----------
        estimator : fitted AdditiveClassifier or AdditiveRegressor
        features : sequence of int or str or tuples of two of them, optional
            Columns and pairs to draw; default the 12 columns and 4 pairs of largest importance.
        coverage : float or None
            How often a band covers its curve; None: no bands.
        classes : sequence of labels, optional
            With more than two classes, those to draw; default the 10 whose curves vary most.  With
            several quantiles, those to draw.
        share_y : bool, default=True
            Whether all panels share the vertical axis, so that heights compare.
        ax : array of Axes, optional
            One for each column and two for each pair, three where it has bands; default a new
            figure.
        """
        check_is_fitted(estimator)
        all_names = feature_names(estimator)
        knots = estimator.knots_
        if features is None:
            columns, pairs = drawn_columns(estimator), drawn_pairs(estimator)
        else:
            columns = [estimator._column(one) for one in features if not isinstance(one, tuple)]
            pairs = [estimator._pair(one) for one in features if isinstance(one, tuple)]
        constant = [all_names[d] for d in columns if not len(knots[d])]
        constant += [
            estimator.term_names_[len(knots) + i]
            for i in pairs
            if not estimator.pair_tables_[i].density.size
        ]
        if constant or not (columns or pairs):
            raise ValueError(
                f"columns {constant} were constant in training and have no curve; leave them out"
                if constant
                else "every column was constant in training: there is no curve to draw"
            )
        grids = [grid_of(estimator, d) for d in columns]
        curves = [estimator._curve(d, grid) for d, grid in zip(columns, grids, strict=True)]
        drawn = [estimator.pair_tables_[i].by_output for i in pairs]
        drawn = [*curves, *(table.reshape(-1, table.shape[2]) for table in drawn)]
        known = output_labels(estimator)
        chosen = _chosen_classes(known, classes, drawn)
        labels, notes = None, []
        if chosen is not None:
            labels = [known[k] for k in chosen]
            curves = [curve[:, chosen] for curve in curves]
            if classes is None and len(chosen) < len(known):
                notes.append(f"{len(chosen)} of {len(known)} {outputs_word(estimator)}")
        n_curves = sum(len(own) > 0 for own in knots)
        if features is None and len(columns) < n_curves:
            notes.insert(0, f"the {len(columns)} largest of {n_curves} terms")
        n_pairs = sum(pair.density.size > 0 for pair in estimator.pair_tables_)
        if features is None and len(pairs) < n_pairs:
            notes.append(f"the {len(pairs)} largest of {n_pairs} pairs")
        deviations = None
        if coverage is not None and hasattr(estimator, "effective_dof_"):
            deviations = [
                estimator._curve_deviation(d, grid) for d, grid in zip(columns, grids, strict=True)
            ]
            if chosen is not None:
                deviations = [deviation[:, chosen] for deviation in deviations]
        display = cls(
            [all_names[d] for d in columns],
            grids,
            curves,
            densities=[estimator.densities_[d] for d in columns],
            categories=[is_category(estimator, d) for d in columns],
            levels=[estimator.levels_.get(all_names[d]) for d in columns],
            classes=labels,
            unit=decision_unit(estimator),
            left_out=", ".join(notes),
            deviations=deviations,
            coverage=coverage or 0.0,
            pairs=pair_panels(
                estimator, pairs, None if classes is None else chosen, bands=coverage is not None
            ),
        )
        return display.plot(share_y=share_y, ax=ax)

    @classmethod
    def compare(
        cls,
        first: Compared,
        second: Compared,
        *,
        labels: tuple[str, str] = ("first", "second"),
        features: Sequence[int | str] | None = None,
        of_class: object = None,
        share_y: bool = True,
        ax: object = None,
    ) -> AdditiveDisplay:
        """Draw the curves of two fitted models over the same columns together.

        `distances_` of the display is a table of how far apart the terms are, those of pairs too:
        the root of the mean squared difference over the rows of the first model, by their density
        (over those of the second where the first has no curve), and the same of each term by
        itself; of several classes over all.  No read.

        Parameters
        ----------
        first, second : fitted AdditiveClassifier or AdditiveRegressor
            Models of the same columns, classes and kind of decision.
        labels : tuple of two str
            Names of the models in the legend.
        features : sequence of int or str, optional
            Columns to draw; default the 12 of largest distance.
        of_class : optional
            With more than two classes, the class to draw, and with several quantiles the quantile;
            default the one of largest distance.
        share_y, ax
            As in `from_estimator`.

        Returns
        -------
        AdditiveDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from streamlearn import AdditiveDisplay, AdditiveRegressor
        >>> X = np.linspace(0, 1, 500)[:, None]
        >>> first = AdditiveRegressor(C=100).fit(X, 3 * X[:, 0])
        >>> second = AdditiveRegressor(C=100).fit(X, X[:, 0])
        >>> table = AdditiveDisplay.compare(first, second).distances_
        >>> round(table.columns["distance"][0], 2), round(2 / 12**0.5, 2)
        (0.58, 0.58)
        """
        sides = sides_of(first, second)
        table = distances(sides)
        columns = columns_to_draw(sides, table, features)
        shown = [both_curves(sides, d) for d in columns]
        gaps = [both.curves[:, :, 0] - both.curves[:, :, 1] for both in shown]
        wanted = None if of_class is None else [of_class]
        chosen = _chosen_classes(output_labels(first), wanted, gaps)
        k, notes = 0, []
        if chosen is not None:
            k = max(chosen, key=lambda j: max(np.abs(gap[:, j]).max() for gap in gaps))
            notes.append(output_name(first, k))
        n_curves = len(with_curves(sides))
        if features is None and len(columns) < n_curves:
            notes.append(f"the {len(columns)} of {n_curves} columns that differ most")
        display = cls(
            [both.name for both in shown],
            [both.grid for both in shown],
            [both.curves[:, k] for both in shown],
            densities=[both.density for both in shown],
            categories=[both.words is not None for both in shown],
            levels=[both.words for both in shown],
            classes=labels,
            unit=decision_unit(first),
            left_out=", ".join(notes),
        )
        display.distances_ = table
        return display.plot(share_y=share_y, ax=ax)

    def plot(self, *, share_y: bool = True, ax: object = None) -> AdditiveDisplay:
        """Draw; `share_y` and `ax` as in `from_estimator`."""
        if ax is None:
            ax = new_axes(len(self.names), [pair.n_maps for pair in self.pairs], share_y)
        axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        n_maps = sum(pair.n_maps for pair in self.pairs)
        if len(axes) != len(self.names) + n_maps:
            raise ValueError(
                f"got {len(axes)} axes for {len(self.names)} columns and {len(self.pairs)} pairs, "
                f"which take {n_maps}: two each, and one more where there are bands"
            )
        self.axes_, self.figure_ = axes, axes[0].figure
        axes, maps = np.split(axes, [len(self.names)])
        tall = [float(np.abs(pair.table).max(initial=0.0)) for pair in self.pairs]
        ends_of_maps = np.cumsum([pair.n_maps for pair in self.pairs])
        for pair, own, most in zip(self.pairs, np.split(maps, ends_of_maps), tall, strict=False):
            draw_pair(pair, own.tolist(), max(tall) if share_y else most, self.coverage)
        reaches = [np.zeros_like(curve) for curve in self.curves]
        if self.deviations is not None:
            width = float(ndtri(0.5 + 0.5 * self.coverage))
            # of a term that was edited they are not known
            reaches = [np.nan_to_num(width * deviation) for deviation in self.deviations]
        ends = [
            (float((f - r).min()), float((f + r).max()))
            for f, r in zip(self.curves, reaches, strict=True)
        ]
        for d, (panel, name, grid) in enumerate(zip(axes, self.names, self.grids, strict=True)):
            low = min(one for one, _ in ends) if share_y else ends[d][0]
            high = max(one for _, one in ends) if share_y else ends[d][1]
            margin = 0.06 * (high - low) or 1.0
            floor = low - 4 * margin
            if self.categories[d]:
                handles = draw_bars(panel, tick_labels(grid, self.levels[d]), self.curves[d])
            else:
                points = has_points(self.densities[d])
                handles = draw_lines(panel, grid, self.curves[d], points=points)
            if self.deviations is not None and np.isfinite(self.deviations[d]).all():
                draw_bands(panel, handles, grid, self.curves[d], reaches[d], self.categories[d])
            draw_density(panel, self.densities[d], floor, 3 * margin, grid, self.categories[d])
            panel.axhline(0.0, color="0.6", linewidth=0.8, zorder=0.5)
            panel.set_title(name, fontsize="medium")
            panel.set_ylim(floor, high + margin)
            spec = panel.get_subplotspec()
            if spec is None or spec.is_first_col():
                panel.set_ylabel(self.unit, fontsize="small")
        if self.classes is not None and len(axes):
            labels = [str(label) for label in self.classes]
            axes[0].legend(handles, labels, fontsize="x-small", ncols=2)
        if self.left_out:
            self.figure_.suptitle(self.left_out, fontsize="small")
        return self


def _chosen_classes(
    labels: list[object], wanted: Sequence[object] | None, curves: Sequence[np.ndarray]
) -> list[int] | None:
    """Numbers of the classes, or quantiles, to draw; None where there is one curve."""
    if not labels:
        if wanted is not None:
            raise ValueError(
                f"classes={list(wanted)!r}: the model has one curve a column, not one a class; "
                "leave classes out"
            )
        return None
    if wanted is not None:
        unknown = [label for label in wanted if label not in labels]
        if unknown or not len(wanted):
            raise ValueError(f"classes={list(wanted)!r} are to be some of {labels[:10]}")
        return [labels.index(label) for label in wanted]
    spread = np.max([np.ptp(curve, axis=0) for curve in curves], axis=0)
    return sorted(np.argsort(-spread, kind="stable")[:MOST_CLASSES].tolist())
