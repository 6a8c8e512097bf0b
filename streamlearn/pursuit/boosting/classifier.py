"""Sparse Jensen-Shannon boosting (SpJSBoost)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ...data.source import Chunk, Source
from ...engine.plan import Needs
from ...engine.run import Run
from ...estimator.base import StreamClassifier
from ...estimator.certificate import Certificate
from ...estimator.row_size import decision_bytes
from ...estimator.rows.class_weights import CONSTRAINT
from ...estimator.rows.encoding import n_features
from ...estimator.scores.paths import Candidate
from ...numeric.checks import check_number, check_records
from ...numeric.huge_pages import resident
from ...numeric.links import rest_probabilities, sigmoid
from ...passes.summary.summary import Summary
from ..answers import decide_rows, log_loss_fold
from ..columns import block_nbytes, make_columns
from ..kernels import ScaledColumns
from ..model import Piece, PursuitModel, check_tau, drive, unit_length
from ..search import N_TRIALS
from ..tables import table_room, table_share
from .boosting import Boosted, BoostSettings, boost, hashed_columns
from .reads import BoostAnswer, boost_fold
from .rows import N_MARGINS, BoostRequest, Learner

LEAST_BINS, MOST_BINS = 8, 256
"""Fewest bins of a histogram by default, and most that may be requested."""


class JensenShannonBoostClassifier(PursuitModel[list[Boosted]], StreamClassifier):
    """Classifier that boosts histograms of sparse projections.

        F(x) = nu sum_j 1/2 log(h+_j(alpha_j'z) / h-_j(alpha_j'z)),    z the standardised columns

    (Zhang, Liang, Tang & Shum 2009, Table 6).  alpha_j maximises the symmetric Jensen-Shannon
    divergence of the histograms of the two classes (eq. 13), whose rows are weighted by e^(-yF)
    within each class, minus two terms.  The first is what each bin that is filled would gain from
    noise and lose on new rows (Akaike 1974), so that columns of few values can compete.  The second
    is (SJS(start) / tau) ||alpha||_1 / ||alpha||_2, of which one more column has at least the
    charge of the extended BIC (at most SJS(start) / tau).  A greedy coordinate search (Table 2)
    finds alpha_j in at most 2 + moves reads.  More than two classes are each trained against the
    rest, all in the same reads.  The margin F, 8 bytes for each row and class, is all that is
    stored of a row between reads.

    Parameters
    ----------
    n_learners : int, default=100
        Largest number of learners of each class.
    tau : float or sequence of float, default=30.0
        Inverse strength of the penalty: the smaller, the sparser; ``float("inf")`` for no penalty.
        A sequence trains a model for each in shared reads and chooses the one of least log-loss on
        `validation`, which it needs.
    n_bins : int, optional
        Number of bins of a histogram over the range of its projection; default: twice the cube root
        of the rows' weight, between 8 and 64.
    shrinkage : float, default=0.3
        Factor nu of each learner, at most 1.
    smooth : bool, default=True
        Whether the bins of a learner's histograms share with their neighbours (1/4, 1/2, 1/4), and
        1 % of the mass is spread evenly.  False: histograms stay as they are, with 1e-10 in bins
        where a class has no rows, and the search has no charge for bins.
    stop : {"significance", None}, default="significance"
        "significance": each round searches on half of the rows and tests the learner of that half
        on the other, at a level of 0.5 %, or 20 % once there is a learner; four misses, one after
        the other, end the fit.  None: each round searches on all rows, and `n_learners` are made.
    penalty : {"scale-free", "paper"}, default="scale-free"
        "scale-free" is the penalty above; "paper" has ||alpha||_1 alone, as printed.
    standardize : bool, default=True
        Whether to search on columns of unit deviation, and not in the columns' own units.
    tol : float, default=1e-3
        Share by which a move must promise to raise the divergence.
    random_state : int, default=0
        Seed of the halves, and of the sample from which a round's first column is guessed.
    class_weight : None, "balanced" or dict, default=None
        As in `AdditiveClassifier`: factors of the rows' weights by class.
    encoding : dict, optional
        Column name -> "number", "cyclic", "indicator" or "target": how columns become features,
        where the default of `data.encoding` is not wanted; or the period of a column of numbers,
        which becomes ``column=sin`` and ``column=cos`` (``{"hour": 24}``).

    Attributes
    ----------
    directions_ : list of (J, n_features) arrays
        Directions alpha_j of unit length: an array for each class, or for the second of two.
    tau_ : float
        The chosen tau.
    path_ : list of dict
        For each tau: ``tau``, ``n_learners``, ``n_zeros``, ``validation_loss``.
    classes_, n_features_in_, feature_names_in_, certificate_, history_, n_passes_
        ``history_`` has one record for each round, with the costs after each move, and the curve of
        the learners before it.

    Notes
    -----
    Table 6 decides by the sign of F, as if classes were equally frequent.  Here a logistic curve of
    F is fitted to the training rows (Platt 1999), so decisions are log odds; without a significant
    learner they are those of the class frequencies.  Equal rows share a half, so that a weight of k
    is k copies.  Where columns have so few values that this would divide the values and not the
    rows, halves go by row number; of rows at risk, by the number of their subject.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import JensenShannonBoostClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (600, 5))
    >>> y = (X[:, :2] ** 2).sum(axis=1) < 0.6
    >>> model = JensenShannonBoostClassifier().fit(X, y)
    >>> round(model.score(X, y), 2)
    1.0
    """

    _parameter_constraints: dict[str, list[object]] = PursuitModel._parameter_constraints | {
        "n_learners": [Interval(Integral, 1, None, closed="left")],
        "n_bins": [Interval(Integral, 2, MOST_BINS, closed="both"), None],
        "shrinkage": [Interval(Real, 0, 1, closed="right")],
        "smooth": ["boolean"],
        "stop": [StrOptions({"significance"}), None],
        "class_weight": CONSTRAINT,
    }

    def __init__(
        self,
        n_learners: int = 100,
        tau: float | Sequence[float] = 30.0,
        *,
        n_bins: int | None = None,
        shrinkage: float = 0.3,
        smooth: bool = True,
        stop: str | None = "significance",
        penalty: str = "scale-free",
        standardize: bool = True,
        tol: float = 1e-3,
        random_state: int = 0,
        class_weight: object = None,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self.n_learners = n_learners
        self.tau = tau
        self.n_bins = n_bins
        self.shrinkage = shrinkage
        self.smooth = smooth
        self.stop = stop
        self.penalty = penalty
        self.standardize = standardize
        self.tol = tol
        self.random_state = random_state
        self.class_weight = class_weight
        self.encoding = encoding

    _path_is_scored = False
    """Whether each model of a path is scored afterwards, so that the fit need not choose."""
    _same_in_one_fit: ClassVar[Mapping[str, float]] = {"n_learners": math.inf}

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        M, B = dataset.n_features, self.n_bins or LEAST_BINS
        if summary is not None:
            B = self._bins(summary)
        K = 1 if summary is None else _n_outputs(self.classes_)
        models = K * len(check_tau(self.tau))
        room = table_room(M, models)
        state = models * (resident(room * (64 << 10)) + N_TRIALS * 32 * B + 16 * N_MARGINS + 8 * M)
        block = block_nbytes(dataset, 24)
        cells = room * 4096 * 64
        model = models * self.n_learners * 8 * (M + B + 8) + M * 8 * 70
        reads = self.n_learners * (4 * M + 18)
        return [
            Needs(
                "search",
                state,
                0,
                state + cells,
                model,
                row_state_bytes=8 * models,
                passes=(1, reads),
                step_bytes=block,
            )
        ]

    def _fit(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        validation: Source | None = None,
        sample: Chunk | None = None,
    ) -> Certificate:
        assert sample is not None  # `_sample_rows` is at least 64
        taus = check_tau(self.tau)
        if len(taus) > 1 and validation is None and not self._path_is_scored:
            raise ValueError(
                f"tau={taus} is a path, and which to keep is chosen by rows held out; call "
                "fit(..., validation=0.1), or give one tau"
            )
        columns = make_columns(summary, self.standardize)
        every = summary.target.counts
        counts = np.array(every[every > 0], float)
        labels = [1] if len(counts) == 2 else list(range(len(counts)))
        models = [(label, tau) for tau in taus for label in labels]
        settings = BoostSettings(
            columns,
            hashed_columns(summary.columns, columns.live, summary.total_weight, dataset.siblings),
            dataset.siblings,
            self.n_learners,
            self._bins(summary),
            float(self.shrinkage),
            self.smooth,
            self.stop == "significance",
            self.penalty,
            self.tol,
            self.random_state,
            len(models),
            table_share(summary.n_rows),
        )

        def read(number: int, batch: list[tuple[int, BoostRequest]]) -> list[BoostAnswer]:
            numbers, requests = tuple(k for k, _ in batch), tuple(one for _, one in batch)
            fold = boost_fold(columns, requests, numbers, len(models))
            return run.fold(fold, dataset, name=f"boost-{number}")

        one_each = [
            boost(
                settings,
                label,
                tau,
                sample,
                np.array([counts.sum() - counts[label], counts[label]]),
            )
            for label, tau in models
        ]
        boosted = drive(read, one_each)
        for model in boosted:
            for record in model.history:
                run.record(**record)
        K = len(labels)
        path = [boosted[i : i + K] for i in range(0, len(boosted), K)]
        losses = np.full(len(taus), np.nan)
        if validation is not None:
            losses = np.array(run.fold(log_loss_fold(columns, path), validation, name="validation"))
            for tau, loss in zip(taus, losses.tolist(), strict=True):
                run.record(tau=tau, validation_loss=loss)
        self._columns, self._taus, self._path = columns, taus, path
        self._losses = losses.tolist()
        best = int(np.argmin(np.nan_to_num(losses, nan=np.inf)))
        self._choose(taus[best])
        chosen = path[best]
        ends = [model.last_cost for model in chosen if model.history]
        return Certificate(
            converged=all(model.converged for model in chosen),
            objective=float(np.mean(ends)) if ends else 0.0,
            criterion="penalised divergence of the last round",
            tolerance=float(self.tol),
            solver="informative feature first",
            reason=self._reason(chosen),
        )

    def _reason(self, models: list[Boosted]) -> str:
        """The learners of each class; what it means that there are none."""
        reason = ", ".join(f"{len(model.learners)} learners" for model in models)
        if any(model.learners for model in models):
            return reason
        why = "no direction passed the test; more rows, or stop=None" if self.stop else "no gain"
        return f"{reason}: the model is the share of each class ({why})"

    def _bins(self, summary: Summary) -> int:
        rows = max(float(summary.total_weight), 1.0)
        return self.n_bins or int(np.clip(round(2 * np.cbrt(rows)), LEAST_BINS, 64))

    def _check(self, models: list[Boosted], columns: ScaledColumns) -> None:
        check_records("models", models, Boosted)
        if len(models) != _n_outputs(self.classes_):
            raise ValueError(f"{len(models)} models for {len(self.classes_)} classes")
        for model in models:
            check_number("slope", model.slope)
            check_number("intercept", model.intercept)
            check_records("learners", model.learners, Learner)
            for alpha, low, high, heights, _ in model.learners:
                columns.check_function(alpha, low, high, heights, 1)

    _measure = "root mean square of its heights over the training rows"

    def _keep(self, model: list[Boosted]) -> None:
        self._models = model

    def at(self, n: int) -> Self:
        """The model with the first n learners of each class, or all if there are fewer.

        It is that of a fit with ``n_learners=n``, its logistic curve included.

        Parameters
        ----------
        n : int

        Returns
        -------
        JensenShannonBoostClassifier
            Another model over the same path; this one stays as it is.
        """
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n={n}; a model has at least 1 learner")
        other = copy.copy(self)
        other._path = [[model.first(n) for model in models] for models in self._path]
        other._choose(self.tau_)
        return other

    @classmethod
    def _joint(cls, candidates: Sequence[Candidate]) -> Candidate:
        most = max(candidate["n_learners"] for candidate in candidates)
        if "tau" not in candidates[0]:
            return {**candidates[0], "n_learners": most}
        taus = list(dict.fromkeys(float(candidate["tau"]) for candidate in candidates))
        tau = taus if len(taus) > 1 else taus[0]
        return {**candidates[0], "n_learners": most, "tau": tau}

    def _models_of(self, candidates: Sequence[Candidate]) -> list[Self]:
        found = []
        for candidate in candidates:
            model = copy.copy(self).select(float(candidate.get("tau", self.tau_)))
            found.append(model.at(candidate["n_learners"]))
        return found

    @property
    def _alphas(self) -> list[np.ndarray]:
        return [new.alpha for model in self._models for new in model.learners]

    @property
    def _weights(self) -> list[float]:
        return [new.weight for model in self._models for new in model.learners]

    @property
    def directions_(self) -> list[np.ndarray]:
        """One (J, n_features) array for each output."""
        return [
            np.array([unit_length(new.alpha) for new in model.learners]).reshape(
                -1, n_features(self)
            )
            for model in self._models
        ]

    @property
    def path_(self) -> list[dict[str, object]]:
        """The size and the validation loss of the model of each tau."""
        return [
            {
                "tau": models[0].tau,
                "n_learners": sum(len(model.learners) for model in models),
                "n_zeros": int(sum((f.alpha == 0).sum() for m in models for f in m.learners)),
                "validation_loss": loss,
            }
            for models, loss in zip(self._path, self._losses, strict=True)
        ]

    @property
    def pieces_(self) -> list[Piece]:
        """Each learner: unit-length ``direction``, ``grid`` of bin edges, ``values`` in bins."""
        pieces: list[Piece] = []
        for model in self._models:
            for k, new in enumerate(model.learners):
                size = float(np.sqrt(new.alpha @ new.alpha))
                title = f"learner {k + 1}"
                if len(self._models) > 1:
                    title += f" of {self.classes_[model.label]}"
                pieces.append(
                    {
                        "direction": new.alpha / size,
                        "grid": np.linspace(new.low, new.high, len(new.heights) + 1) / size,
                        "values": new.heights,
                        "title": title,
                    }
                )
        return pieces

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        return decide_rows(self._columns, self._models, chunk)

    def _decision_row_nbytes(self, dataset: Source) -> float:
        return decision_bytes(self)  # margins

    def _check_probability(self) -> None:
        pass

    def _probability(self, decision: np.ndarray) -> np.ndarray:
        return rest_probabilities(decision, sigmoid)


def _n_outputs(classes: np.ndarray) -> int:
    return 1 if len(classes) == 2 else len(classes)
