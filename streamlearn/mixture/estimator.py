"""A mixture of linear SVMs, trained by EM over data that need not fit in memory."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import NotRequired, Self, TypedDict

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..data.source import Chunk, Source
from ..engine.plan import Needs
from ..engine.run import Run
from ..errors import LackError
from ..estimator import predicting
from ..estimator.base import StreamClassifier
from ..estimator.certificate import Certificate
from ..estimator.facts import Parts
from ..estimator.fitting import share_fitted
from ..estimator.report.figures import Figure
from ..estimator.restored import n_outputs
from ..estimator.rows.class_weights import CONSTRAINT
from ..estimator.rows.encoding import n_features
from ..numeric.checks import check_array
from ..numeric.links import sigmoid, two_classes
from ..passes.shuffling import Waiting, check_waiting
from ..passes.summary.summary import Summary
from . import answers, experts, gate, needs, partial_fit, training
from .em.online import Online, check_online
from .figures import figures_of
from .objective import Parameters, Problem


class MixtureState(TypedDict):
    """Contents of a saved model."""

    problem: Problem
    parameters: Parameters
    weights: np.ndarray
    online: Online | None
    waiting: NotRequired[Waiting | None]
    """Rows of a stream that nothing was learned from yet; older files do not say it."""
    held: NotRequired[Waiting | None]
    """First rows of a stream, which EM runs over again; older files do not say it."""


def _is_online(model: SVMMixtureClassifier) -> bool:
    if model.algorithm == "online-em":
        return True
    raise AttributeError(
        f"algorithm={model.algorithm!r} learns from all rows together; partial_fit needs "
        "algorithm='online-em'"
    )


class SVMMixtureClassifier(StreamClassifier):
    """Classifier that shares the rows out among linear experts, by a gate trained with them.

        maximise  sum_i s_i log sum_j g_j(x_i) e^-l(y_i, f_j(x_i))
                      - sum_j |w_j|^2 / (2 C) - nu sum_j log xi_j,      f_j(x) = w_j.(x, 1)

    (Fu, Robles-Kelly & Zhou 2010, eq. 8 and 19) by generalised EM.  One read of the data gives an
    E-step, the objective and all sums for the M-step; a step that lowers the objective is taken
    back.  With one component and a hinge the model is LIBLINEAR's linear SVM on the scaled
    columns.  EM first runs on a sample of the rows in memory, up to 32 MiB of them, where a read
    costs nothing.

    Parameters
    ----------
    n_components : int or (int, int), default=10
        Number of components at first; those that hold no more than `nu` rows are pruned.  A pair
        (a, b) is a tree of gates in two levels, with a branches of b components each (eq. 22).  The
        generative gate takes no pair, because its tree would be a flat mixture.
    gate : {"generative", "rbf", "linear", "rbf-unnormalised"}, default="generative"
        "generative": xi_j N(x; v_j, I / 2 tau), a part of the joint density of x and y.  "rbf":
        the paper's weights xi_j e^(-tau |x - v_j|^2), divided by their sum; the clusters are where
        it begins, and nothing keeps it near them, which some ten components in a few columns need
        (spirals).  "linear": a softmax of free linear functions, penalised as the experts are,
        which begins softly and is the most accurate on most tables.  "rbf-unnormalised": xi_j times
        a softmax, as eq. 7 is printed; it warns, because its weights add up to about 1 / k, so
        that the fit prefers one component.
    expert_loss : {"log_loss", "squared_hinge", "hinge"}, default="log_loss"
        Loss of an expert's margin.  With more than two classes "log_loss" is multinomial, and the
        hinges, which are the paper's SVMs, are sums over one class against the rest.  "log_loss"
        has the better probabilities.  "hinge" stores a dual variable for each row and expert on
        disk, and reads the rows in one lane.
    C : float, default=1.0
        Weight of the rows against the penalty.
    tau : "scale" or float, default="scale"
        Inverse width of the gate's centres; "scale": 1 / (2 x mean variance of a scaled column
        within the first clusters).
    nu : "mml" or float, default="mml"
        Number of rows that a component must exceed; "mml": half of the number of its parameters.
    scaling : {"standard", "range", "none"}, default="standard"
        "standard": each column minus its mean, divided by its standard deviation; indicators of a
        category by one in common, the root of the sum of their variances.  "range": from 0 to 1.
        "none": as it is.  Sparse columns are not shifted.
    algorithm : {"em", "online-em"}, default="em"
        "online-em" takes a small step after every 512 rows and has `partial_fit`; its objective is
        not monotone.  A stream's first 16,384 rows, 8 MiB at most, are held, and EM runs over them
        when they are 2,048, 4,096 and so on: a stream of fewer rows than that learns little.
    n_init : int, default=1
        Number of starts on the sample; the one of highest objective goes on.
    tol : float, default=1e-5
        EM stops when the objective rose by no more than this share of itself, three times.
    max_passes : int, default=100
        Largest number of reads of the data, the summary included.
    random_state : int, default=0
        Seed of the sample, the clusters and the order of rows.
    class_weight : None, "balanced" or dict, default=None
        As in `AdditiveClassifier`: factors of the rows' weights by class.
    encoding : dict, optional
        Column name -> "number", "cyclic", "indicator" or "target": how columns become features,
        where the default of `data.encoding` is not wanted; or the period of a column of numbers,
        which becomes ``column=sin`` and ``column=cos`` (``{"hour": 24}``).

    Attributes
    ----------
    n_components_ : int
        Number of components that are left.
    weights_ : (k,) float64
        Share of the rows that each component holds.
    coef_ : (k, O, p), intercept_ : (k, O) float64
        Experts in the columns' own units; O is 1 for two classes, otherwise the number of classes.
    classes_, n_features_in_, feature_names_in_
    certificate_ : Certificate
    history_ : list of dict
        One record per iteration: phase ("sample-1" in memory; "online" and "all rows" take a read
        each), objective, log_likelihood, n_components, event ("taken back", "pruned").
    n_passes_ : int
        Number of reads: one for the summary (several if 96 bytes a column are more than the budget
        allows), two by k-means for each start if there are more rows than the sample has (none for
        a tree), and one for each record of all rows.  With `validation` its rows are read once more
        after each read by EM.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import SVMMixtureClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (600, 2))
    >>> y = (X**2).sum(axis=1) < 0.5
    >>> model = SVMMixtureClassifier(8, gate="linear", C=100.0, nu=1.0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.98
    """

    _parameter_constraints: dict[str, list[object]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), tuple],
        "gate": [StrOptions(set(gate.GATES))],
        "expert_loss": [StrOptions(set(experts.LOSSES))],
        "C": [Interval(Real, 0, None, closed="neither")],
        "tau": [StrOptions({"scale"}), Interval(Real, 0, None, closed="left")],
        "nu": [StrOptions({"mml"}), Interval(Real, 0, None, closed="left")],
        "scaling": [StrOptions({"standard", "range", "none"})],
        "algorithm": [StrOptions({"em", "online-em"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_passes": [Interval(Integral, 2, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "class_weight": CONSTRAINT,
        "encoding": [dict, None],
    }
    _accepts_sparse = True
    _encodes = True

    def __init__(
        self,
        n_components: int | tuple[int, int] = 10,
        *,
        gate: str = "generative",
        expert_loss: str = "log_loss",
        C: float = 1.0,
        tau: float | str = "scale",
        nu: float | str = "mml",
        scaling: str = "standard",
        algorithm: str = "em",
        n_init: int = 1,
        tol: float = 1e-5,
        max_passes: int = 100,
        random_state: int = 0,
        class_weight: object = None,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self.n_components = n_components
        self.gate = gate
        self.expert_loss = expert_loss
        self.C = C
        self.tau = tau
        self.nu = nu
        self.scaling = scaling
        self.algorithm = algorithm
        self.n_init = n_init
        self.tol = tol
        self.max_passes = max_passes
        self.random_state = random_state
        self.class_weight = class_weight
        self.encoding = encoding

    # What it costs.

    def _validate_params(self) -> None:
        super()._validate_params()
        n = self.n_components
        if isinstance(n, tuple):
            if len(n) != 2 or not all(isinstance(i, int | np.integer) and i >= 1 for i in n):
                raise ValueError(
                    f"n_components={n!r}; expected a number, or a pair (branches, components of "
                    "each), both at least 1"
                )
            if self.gate == "generative":
                raise ValueError(
                    f"n_components={n!r} with gate='generative': two levels of Gaussians are one "
                    f"flat mixture; use n_components={n[0] * n[1]}, or gate='rbf' or 'linear'"
                )
        if not isinstance(self.gate, str):  # one that chooses has several; each is judged alone
            return
        if self.gate == "generative" and self.tau == 0:
            raise ValueError("tau=0 with gate='generative' is no density; use tau='scale'")
        if self.gate == "rbf-unnormalised":
            warnings.warn(
                f"gate={self.gate!r} is eq. 7 as printed: its weights add up to about one over the "
                "number of components, so that rows are likelier with fewer of them and the fit "
                "ends with few or one; use gate='rbf', which divides them by their sum",
                UserWarning,
                stacklevel=4,
            )

    def _needs(self, dataset: Source, summary: Summary | None = None) -> list[Needs]:
        size = needs.size_of(self, dataset)
        return needs.needs_of(size, self.max_passes, in_sequence=needs.in_sequence(self))

    def _sample_rows(self, dataset: Source) -> int:
        return max(needs.size_of(self, dataset).sample, 1)

    def _moments_only(self) -> bool:
        return True  # scaling needs no more, and even many columns take one read

    # Fitting.

    def _fit(
        self,
        run: Run,
        dataset: Source,
        summary: Summary,
        validation: Source | None = None,
        sample: Chunk | None = None,
    ) -> Certificate:
        assert sample is not None  # `_sample_rows` is at least 1
        self.__dict__.pop("online_", None)  # a fit begins anew
        self._waiting = self._held = None
        k = needs.counts(self.n_components)[0]
        if summary.n_rows < k:
            raise LackError(
                f"n_components={self.n_components!r} are {k} components for n_samples="
                f"{summary.n_rows} rows",
                "a component needs a row of its own: ask for fewer",
            )
        state, solver = training.fit(self, run, dataset, summary, validation, sample)
        self._keep(state.problem, state.point.at, state.point.mass)
        reason = state.reason
        if self.n_components_ == 1 < k and summary.total_weight <= state.problem.nu:
            reason += f"; nu={state.problem.nu:g} would leave no component, the last one stays"
            if self.nu != "mml":
                warnings.warn(
                    f"nu={state.problem.nu:g} is no less than the {summary.total_weight:g} rows "
                    "there are, so one component is left: a linear model; lower nu",
                    UserWarning,
                    stacklevel=5,
                )
        return Certificate(
            converged=state.converged,
            objective=state.point.objective,
            criterion="rise of the penalised log-likelihood",
            tolerance=float(self.tol),
            solver=solver,
            reason=reason,
        )

    @available_if(_is_online)
    def partial_fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        classes: npt.ArrayLike | None = None,
        shuffle_buffer: int | None = None,
    ) -> Self:
        """Train on more rows; the first call scales the columns, clusters the rows and begins.

        Each call is planned within the memory budget and reads its rows once to check them and once
        to learn, in their own order or in that of a `shuffle_buffer`.  The penalty weighs as much
        as it would among all rows seen.  The first rows are held in memory for EM, which runs over
        them each time they have doubled, until they are 16,384 or 8 MiB; components that hold
        nothing go then.  After a call, components that hold no more than `nu` of all rows seen go,
        once the rows are enough for all to hold twice as many.  A saved model holds the first rows
        too, and goes on where it was.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        classes : array-like, optional
            All classes that will ever come, in the first call; default: those of its rows.
        shuffle_buffer : int, optional
            Rows that wait in memory, for a stream that comes in an order: with so many a half of
            them, drawn by `random_state`, is learned from.  A saved model holds those that wait.
            Later calls go on with it; 0 in one of them, the last, learns from all that wait.  How
            rows after the first call's are cut into calls then decides when components are
            pruned, and nothing else.

        Returns
        -------
        self
        """
        self._validate_params()
        partial_fit.partial_fit(self, X, y, sample_weight, classes, shuffle_buffer)
        return self

    def _keep(self, problem: Problem, at: Parameters, mass: np.ndarray) -> None:
        """Set the fitted attributes."""
        tree, n = problem.tree, problem.tree.n_gates
        leaves = mass[tree.n_branches :]
        self.problem_, self.parameters_ = problem, at
        self.weights_ = leaves / leaves.sum()
        self.n_components_ = tree.n_leaves
        factor = 1.0 if problem.factor is None else problem.factor
        shift = 0.0 if problem.shift is None else problem.shift
        shape = tree.n_leaves, problem.n_outputs, -1
        coef = at.rows[n:, :-1] * factor
        self.coef_ = coef.reshape(shape)
        self.intercept_ = (at.rows[n:, -1] - (coef * shift).sum(axis=1)).reshape(shape[:2])

    # Using it.

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        return answers.decisions(self.problem_, self.parameters_, chunk.X)

    def _decision_row_nbytes(self, dataset: Source) -> float:
        return answers.decision_row_nbytes(self.problem_)

    def _check_probability(self) -> None:
        """Accept every loss: e^-loss, normalised over the classes, is a probability."""

    def _probability(self, decision: np.ndarray) -> np.ndarray:
        if decision.ndim == 1:
            return two_classes(sigmoid(decision))
        return np.exp(decision)

    def gate_probabilities(self, X: object) -> np.ndarray:
        """(n, k) shares of each row that the gate gives to the components, with sum 1.

        Arrays, frames, paths and Datasets give an array, dask collections a lazy dask array.
        """
        check_is_fitted(self)
        view = _Gate()
        shared = ("n_features_in_", "feature_names_in_", "encoding_", "problem_", "parameters_")
        share_fitted(self, view, shared)
        view.classes_ = np.arange(self.n_components_)
        view.certificate_ = self.certificate_
        return predicting.answer(view, X, "probability")

    def _parts(self) -> Parts:
        names = [f"component {j}" for j in range(self.n_components_)]
        return Parts.by_size("components", "share of the rows", names, self.weights_)

    def _figures(self) -> tuple[str, Sequence[Figure]]:
        return figures_of(self, self.problem_, self.parameters_, self.weights_)

    _waiting: Waiting | None = None
    """Rows of a stream that nothing was learned from yet."""
    _held: Waiting | None = None
    """First rows of a stream, which EM runs over each time that they have doubled."""

    def _state(self) -> MixtureState:
        return {
            "problem": self.problem_,
            "parameters": self.parameters_,
            "weights": self.weights_,
            "online": getattr(self, "online_", None),
            "waiting": self._waiting,
            "held": self._held,
        }

    def _restore(self, tree: MixtureState) -> None:
        problem, at, k = tree["problem"], tree["parameters"], n_outputs(self)
        if not isinstance(problem, Problem) or problem.n_outputs != k:
            raise ValueError(f"the problem is not one of {k} outputs")
        problem.check(n_features(self))
        problem.check_parameters(at)
        check_array("weights", tree["weights"], (problem.tree.n_leaves,), low=0)
        if tree["online"] is not None:
            check_online(problem, tree["online"])
        mass = np.r_[np.zeros(problem.tree.n_branches), tree["weights"]]
        self._keep(problem, tree["parameters"], mass)
        if tree["online"] is not None:
            self.online_ = tree["online"]
        self._waiting, self._held = tree.get("waiting"), tree.get("held")
        for rows in (self._waiting, self._held):
            if rows is not None:
                check_waiting(rows, n_features(self))


class _Gate(StreamClassifier):
    """The gate of a fitted mixture, as a classifier of rows into components."""

    _accepts_sparse = True
    problem_: Problem
    parameters_: Parameters

    def _decision_chunk(self, chunk: Chunk) -> np.ndarray:
        return answers.gate_shares(self.problem_, self.parameters_, chunk.X)

    def _check_probability(self) -> None:
        """Accept: shares are probabilities."""

    def _probability(self, decision: np.ndarray) -> np.ndarray:
        return decision
