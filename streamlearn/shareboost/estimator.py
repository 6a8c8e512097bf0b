"""The classifier that selects few columns, shared by all classes, from data larger than memory."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..data.source import Chunk, Source
from ..engine.plan import Needs
from ..engine.run import Run
from ..estimator.base import StreamClassifier
from ..estimator.certificate import Certificate
from ..estimator.rows.class_weights import CONSTRAINT
from ..estimator.rows.encoding import column_of
from ..estimator.scores.paths import Candidate
from ..numeric.sequences import labels_of
from ..passes.summary.summary import Summary
from . import needs
from .design import TARGET, Layout
from .objective import Penalty, best_intercept, probabilities, residual
from .path import PathModel, PathPoint, Selector
from .reads import Reader, start_fold
from .selection.kernels import score_rows
from .selection.pieces import PIECES, SAMPLE_ROWS, sums_of
from .selection.scoring import group_kind, stride_of
from .selection.search import make_search
from .selection.stumps import MOST_BINS
from .side import Side, ThinSource
from .training import Settings, Training

DECIDED_ROWS, DECIDED_BYTES = 1 << 14, 1 << 20
"""Rows of which features are made at a time, at most, and their bytes."""
GROUPS = "a list of the group of each column, such as [0, 0, 1], all numbers or all strings"
PRIOR = 0.5
"""Total weight times ``ridge="auto"`` of a column of variance 1: the penalty that
`sklearn.linear_model.LogisticRegression` with nothing set has of scaled columns."""


class ShareBoostClassifier(PathModel, Selector, StreamClassifier):
    """Multiclass classifier on few columns, all of them shared by all classes.

        minimise  sum_i s_i/S log sum_c exp(1[c != y_i] + z_ic - z_iy)
                  + sum_r ridge_r |w_r|^2 + mixed_norm |W|_{inf,1},       z_i = b + W x_i

    over W with at most `n_selected` columns w_r that are not 0, greedily.  Each round reads the
    gradient of every column, selects those that promise most, and optimises the coefficients of all
    that are selected so far, which it stores apart from the wide data (Shalev-Shwartz, Wexler &
    Shashua 2011, Algorithm 1).  A fit reads the data once for the summary, and in each round all
    columns once and those on the shortlist once more.

    Parameters
    ----------
    n_selected : int, default=20
        Number of columns (groups, products, stumps, pieces) to select; the fit ends with fewer if
        no other helps.
    candidates : {"columns", "products", "stumps", "pieces", "soft-pieces"}, default="columns"
        "products": x_i x_j for all pairs of columns.  "stumps": 1[x_j <= t] for all thresholds t.
        "pieces": (x, 1) 1[|x - anchor| < radius], a linear model of its own near each anchor;
        "soft-pieces": (x, 1) max(0, 1 - |x - anchor|^2 / radius^2), so that scores are continuous.
    rule : {"scale-free", "l1", "lookahead"}, default="scale-free"
        "scale-free": the largest proved decrease, |G_r|_1 / sd(x_r).  "l1": the paper's |G_r|_1.
        "lookahead": the one whose best step lowers the loss most, among the best by "scale-free".
    groups : array-like of shape (d,), optional
        Group of each column; whole groups are selected, by the sum of their columns' scores.
        By default the features that one column becomes (its levels, say) are selected together.
    ridge : float or "auto", default="auto"
        Weight of |W|^2, in the units of the columns.  "auto": of each column its variance over
        twice the total weight S, in any units, as a normal distribution says of what one standard
        deviation adds to the scores beforehand; separable rows then have coefficients that end.
    mixed_norm : float, default=0.0
        Weight of the smoothed |W|_{inf,1} of W less what its classes have in common, to which the
        loss is blind.
    sharpness : float, default=10.0
        Sharpness of the smoothing: the larger it is, the closer to the norm.
    columns_per_pass : int or "auto", default="auto"
        Number selected from one read of all columns, no two of them correlated more than 0.9;
        "auto": one at first, later up to eight.
    prune : bool, default=False
        After each round take out columns that cost at most half of what the last one gained.
    n_anchors, n_radii : int, default=100, 8
        For pieces: the number of anchors, which k-means finds, and of radii of each, which are
        quantiles of the distances to it.
    tol : float, default=1e-7
        The fit ends when no candidate is proved to lower the objective by this share of its value
        without columns.
    random_state : int, default=0
        Seed of the anchors.
    class_weight : None, "balanced" or dict, default=None
        As in `AdditiveClassifier`: factors of the rows' weights by class.
    encoding : dict, optional
        Column name -> "number", "cyclic", "indicator" or "target": how columns become features,
        where the default of `data.encoding` is not wanted; or the period of a column of numbers,
        which becomes ``column=sin`` and ``column=cos`` (``{"hour": 24}``).

    Attributes
    ----------
    coef_ : (K, width) float64
        Coefficients of the selected features, in the order of selection.
    intercept_ : (K,) float64
    choices_ : list of tuple
        What was selected, in this order: (column,), (group,), (i, j), (column, threshold) or
        (anchor, radius).
    support_ : (m,) int
        Features that are used, ascending: the columns of X where each is one feature.
    columns_ : (c,) int
        Columns of X that these features are made of, ascending.
    path_ : dict of arrays
        ``n, loss, objective, promised_gain, largest_gradient, validation_loss, validation_error``
        of the models after each round; `at` gives the models.
    classes_, n_features_in_, feature_names_in_, certificate_, history_, n_passes_

    Notes
    -----
    With one column a read and |x| <= 1, the loss after T columns is at most L(W*) + 2 |W*|^2 / T in
    the norm |W|_{inf,1} (twice as good as the paper's Theorem 2), for any W*.

    There is no `partial_fit`: a column's score is the gradient of all rows at the model so far, and
    the correction minimises over all rows again when a column comes in, whose values in rows that
    are gone were not kept.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import ShareBoostClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 40))
    >>> y = (X[:, 7] > 0).astype(int) + 2 * (X[:, 30] > 0)
    >>> ShareBoostClassifier(n_selected=2, ridge=1e-3).fit(X, y).support_
    array([ 7, 30])
    """

    _parameter_constraints: dict[str, list[object]] = {
        "n_selected": [Interval(Integral, 1, None, closed="left")],
        "candidates": [StrOptions({"columns", "products", "stumps", *PIECES})],
        "rule": [StrOptions({"scale-free", "l1", "lookahead"})],
        "groups": [None, "array-like"],
        "ridge": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "mixed_norm": [Interval(Real, 0, None, closed="left")],
        "sharpness": [Interval(Real, 0, None, closed="neither")],
        "columns_per_pass": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "prune": ["boolean"],
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "n_radii": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "class_weight": CONSTRAINT,
        "encoding": [dict, None],
    }
    _encodes = True

    @property
    def _counts_copies(self) -> bool:
        return isinstance(self.ridge, str)  # the loss is a mean over the weights

    @property
    def _accepts_sparse(self) -> bool:
        return self.candidates in ("columns", "products")

    @property
    def _why_dense(self) -> str:
        return (
            f"candidates={self.candidates!r} look at absent values as at others, "
            "candidates='columns' and 'products' at stored ones alone; "
        )

    def __init__(
        self,
        n_selected: int = 20,
        *,
        candidates: str = "columns",
        rule: str = "scale-free",
        groups: object = None,
        ridge: float | str = "auto",
        mixed_norm: float = 0.0,
        sharpness: float = 10.0,
        columns_per_pass: int | str = "auto",
        prune: bool = False,
        n_anchors: int = 100,
        n_radii: int = 8,
        tol: float = 1e-7,
        random_state: int = 0,
        class_weight: object = None,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self.n_selected = n_selected
        self.candidates = candidates
        self.rule = rule
        self.groups = groups
        self.ridge = ridge
        self.mixed_norm = mixed_norm
        self.sharpness = sharpness
        self.columns_per_pass = columns_per_pass
        self.prune = prune
        self.n_anchors = n_anchors
        self.n_radii = n_radii
        self.tol = tol
        self.random_state = random_state
        self.class_weight = class_weight
        self.encoding = encoding

    # Models of fewer columns are points on the way to those of more, not corrected as far as the
    # last of a fit: a choice takes them, but `cross_validate`, which promises the fits, does not.
    @classmethod
    def _joint(cls, candidates: Sequence[Candidate]) -> Candidate:
        most = max(candidate["n_selected"] for candidate in candidates)
        return {**candidates[0], "n_selected": most}

    def _models_of(self, candidates: Sequence[Candidate]) -> list[Self]:
        return [self.at(candidate["n_selected"]) for candidate in candidates]

    # What it costs.

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        self._check_combination(dataset.n_features, summary is not None)
        return needs.needs_of(self._size(dataset, summary))

    def _check_combination(self, n_features: int, encoded: bool) -> None:
        """Refuse options that do not go together; once the features are there (`encoded`), all."""
        if self.groups is not None:
            if self.candidates != "columns":
                raise ValueError(
                    f"groups are groups of columns; candidates={self.candidates!r} has none, use "
                    "candidates='columns' or groups=None"
                )
            if encoded:
                group_kind(self._feature_groups(), n_features)
        if self.rule == "lookahead" and (self.groups is not None or self.candidates in PIECES):
            what = "groups" if self.groups is not None else "pieces"
            raise ValueError(
                f"rule='lookahead' looks at features one by one, not at {what}; use 'scale-free'"
            )
        if self.candidates == "products" and encoded and n_features < 2:
            raise ValueError(
                f"candidates='products' takes pairs of columns, but X has {n_features} feature(s); "
                "use 'columns'"
            )

    def _feature_groups(self) -> np.ndarray | None:
        """(n_features,) group of each feature; None if each is alone."""
        if not hasattr(self, "n_features_in_"):  # a plan is made before there is a table
            return None if self.groups is None else labels_of("groups", self.groups, GROUPS)
        of = column_of(self)
        if self.groups is not None:
            labels = labels_of("groups", self.groups, GROUPS)
            if labels.shape != (self.n_features_in_,):
                raise ValueError(
                    f"groups has shape {labels.shape}, expected ({self.n_features_in_},): the "
                    "group of each column"
                )
            return labels[of]
        together = self.candidates == "columns" and self.rule != "lookahead"
        return of if together and len(of) > self.n_features_in_ else None

    def _size(self, dataset: Source, summary: Summary | None = None) -> needs.Size:
        K, d = len(getattr(self, "classes_", (0, 0))), dataset.n_features
        n_units, unit = d, 8 * stride_of(K)
        if self.candidates == "products":
            unit = 8 * max(K, 2) * d
        elif self.candidates == "stumps":
            unit = MOST_BINS * (8 * (K + 2) + 16)
        elif self.candidates in PIECES:
            n_units, unit = self.n_anchors, self.n_radii * sums_of(self.candidates, K) * (d + 1) * 8
        return needs.size_of(self, dataset, n_units, unit, self.candidates)

    def _moments_only(self) -> bool:
        return self.candidates != "stumps"  # the first bins of stumps are cut at quantiles

    def _sample_rows(self, dataset: Source) -> int:
        return SAMPLE_ROWS if self.candidates in PIECES else 0

    # Fitting.

    def _fit(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        validation: Source | None = None,
        sample: Chunk | None = None,
    ) -> Certificate:
        dtype = dataset.dtype.name
        K = len(self.classes_)
        ridge, relative = 0.0, PRIOR / max(summary.total_weight, 1.0)
        if not isinstance(self.ridge, str):
            ridge, relative = float(self.ridge), 0.0
        penalty = Penalty(ridge, float(self.mixed_norm), float(self.sharpness), relative)
        counts = summary.target.counts
        shares = counts[counts > 0] / counts.sum()
        intercept, loss = best_intercept(shares)
        table = residual(np.tile(intercept, (K, 1)), np.arange(K), np.ones(K))
        read = Reader(run, dataset, dataset.feature_names)
        size = self._size(dataset, summary)
        # the budget that a checkpoint keeps: a resumed fit cuts the same blocks
        block = needs.block_of(size, needs.score_state_bytes(size, run.plan.budget))
        kind, search = make_search(self, run, read, dataset, summary, penalty, sample, block)
        read.precede(start_fold(table, summary.total_weight, dtype))
        source = ThinSource(size.n_rows, size.thin_rows, size.side_row_nbytes)
        side = Side(
            run,
            source,
            Layout((TARGET,), (), size.base, dtype, size.stored_dtype),
            capacity=size.n_stored,
            in_memory=needs.fits_in_memory(run.plan),
        )
        training = Training(
            run,
            read,
            side,
            search,
            kind,
            penalty,
            Settings(
                self.n_selected,
                self.rule,
                self.columns_per_pass,
                bool(self.prune),
                self.tol * loss,
                size.n_rows,
                float(summary.total_weight),
            ),
            PathPoint((), intercept[:, None], loss, loss, 0.0),
        )
        training.run()
        points = {point.n: point for point in training.points}
        self._points = [points[n] for n in sorted(points)]
        self._kind = kind
        if validation is not None:
            self._validate(run, validation)
        chosen = self._best_point()
        self._set(self._points[chosen])
        return self._certificate(training, self._points[chosen], validation is not None)

    def _certificate(self, training: Training, point: PathPoint, validated: bool) -> Certificate:
        reason = training.reason
        if validated:
            reason += f"; {point.n} of them have the least validation loss"
        if not training.converged:
            reason += "; the last correction stopped short of tol"
        return Certificate(
            converged=training.converged,
            objective=point.objective,
            criterion="promised gain of one more",
            tolerance=float(self.tol),
            solver=f"shareboost, {self.candidates}, {self.rule}",
            reason=reason,
        )

    # Using it.

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        X = chunk.of_few_columns() if self.choices_ else np.empty((chunk.n_rows, 0))
        K = len(self.intercept_)
        out = np.empty(chunk.n_rows) if K == 2 else np.empty((chunk.n_rows, K))
        each = 2 * X.itemsize * self.coef_.shape[1] + 8 * K
        rows = max(min(DECIDED_ROWS, DECIDED_BYTES // each), 1)
        for start in range(0, chunk.n_rows, rows):  # features may be more than the columns
            part = slice(start, start + rows)
            V = np.ascontiguousarray(self._features(X[part]))
            Z = np.empty((len(V), K))
            score_rows(V, self.coef_, self.intercept_, Z)
            out[part] = Z[:, 1] - Z[:, 0] if K == 2 else Z
        return out

    _probability_copies: ClassVar[int] = 3

    def _check_probability(self) -> None:
        pass

    def _probability(self, decision: np.ndarray) -> np.ndarray:
        return probabilities(decision)
