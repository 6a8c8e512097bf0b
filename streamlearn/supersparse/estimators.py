"""Super-sparse machines: a handful of trained prototypes in the place of thousands of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import StrOptions

from ..data.source import Source
from ..estimator.base import StreamClassifier, StreamRegressor
from ..estimator.certificate import Certificate
from ..estimator.rows.class_weights import CONSTRAINT
from ..numeric.links import softmax_probabilities
from .logistic import refit
from .model import SuperSparseModel
from .sample import SampleObjective
from .search import Recording
from .similarity import Neighbours, SimilarityParameter


class SuperSparseRegressor(SuperSparseModel, StreamRegressor):
    """Regressor that is a sum of similarities to a few prototypes, which it trains as well.

        minimise  1/W sum_i u_i (y_i - g(x_i))^2 + ridge |beta|^2,
        g(x) = b + sum_j beta_j s(x, z_j)

    over beta, b and the prototypes z_j (Biggio 2015, eqs. 1-3; the paper's lambda is ridge W,
    W = sum_i u_i).  The fit begins on a sample of the rows in memory (at most an eighth of the
    memory budget, 128 MiB without one).  There L-BFGS moves the prototypes, and the one that is
    missed least, such as one of two that have met, is put where it helps most, while that lowers
    the objective.  Then reads of all rows move them: each iteration takes one read, which scores
    three steps exactly and gives the gradients for the next ones.  The objective never rises.  It
    is not convex, so another `random_state` may end elsewhere.

    Rows that fit into the sample take 2 reads: the summary, and one that proves the outcome.  More
    rows take 4 to 20.  For m prototypes and p columns a read holds about 50 m^2 + 24 m p bytes in
    each lane.

    Parameters
    ----------
    n_prototypes : int, default=10
        Number of prototypes; fewer are used if there are fewer distinct rows.
    similarity : {"rbf", "linear", "poly", "laplacian", "chi2"}, callable or (callable, callable)
        Similarity of rows to prototypes, default "rbf"; `supersparse.similarity` has the formulas.
        A callable ``s(X, Z)`` takes rows (n, p) and prototypes (m, p), read-only float64, and
        returns (n, m).  It need be neither positive definite nor differentiable: prototypes then
        move towards and away from rows by the heuristic of eq. 7, and only moves that lower the
        objective are taken.  The second of a pair is ``vjp(X, Z, R) -> (m, p)``, the sum over rows
        i of R_ij ds(x_i, z_j)/dz_j.  Models with callables can be pickled, not saved.
    gamma : float or "scale", default="scale"
        Factor in rbf, poly, laplacian and chi2; "scale": 1 / (p X.var()), as for scikit-learn's
        `SVC`; where columns are scaled, rbf and laplacian, which see differences alone, take
        1 / (p v), v the mean variance of a scaled column, which is 1 for numbers that vary.
    degree : int, default=3
        Power in poly.
    coef0 : float, default=1.0
        Summand in poly.
    ridge : float or "auto", default="auto"
        Weight of the penalty, relative to the mean squared error.  "auto": 0.04 / W, at least
        1e-6: of few rows more, as they do not tell as many coefficients.
    repulsion : float, default=0.0
        Weight, at the beginning, of the sum of similarities between prototypes, in units of the
        first objective; it decays to nothing.  It needs a bounded similarity.
    init : {"rows", "k-means"} or array of shape (n_prototypes, p), default="rows"
        Rows drawn by weight, or centres of clusters, an equal share from each class; or the
        prototypes to begin with.
    neighbours : callable, optional
        For rows that code structures (strings, graphs) as p numbers: ``neighbours(z) -> (k, p)``
        lists what a prototype may become in one move.  It needs a callable similarity, and init
        "rows" or an array.
    scaling : {"auto", "standard", "none"}, default="auto"
        "standard": the similarity sees each column over its standard deviation (indicators of a
        category over one in common, the root of the sum of their variances), and `gamma` is in
        that unit; "none": as it is.  "auto" is "standard" for rbf, laplacian, linear and poly
        where less than a quarter of the columns would make the distances, by their variances;
        pixels are taken as they are, and so is what chi2 and callables see.
    schedule : {"all", "paper"}, default="all"
        Whether all prototypes move together, or one at a time as in Algorithm 1 ("paper"), with the
        step sizes scored exactly.
    n_passes : int, default=20
        Largest number of reads, the summary included.
    tol : float, default=1e-3
        The fit ends when a read lowers the objective, or the next one promises to lower it, by less
        than this share.
    random_state : int, default=0
        Seed of the sample and of the first prototypes.
    encoding : dict, optional
        Column name -> "number", "cyclic", "indicator" or "target": how columns become features,
        where the default of `data.encoding` is not wanted; or the period of a column of numbers,
        which becomes ``column=sin`` and ``column=cos`` (``{"hour": 24}``).

    Attributes
    ----------
    prototypes_ : (m, p) float64
        Prototypes by falling coefficient (the largest of any class), in the columns' units.
    coef_ : (T, m) float64
        Coefficients beta; T = 1 for a regressor and for two classes.
    intercept_ : (T,) float64
    increase_ : (m,) float64
        Rise of the objective without each prototype, when the others' coefficients are refitted.
    similarity_ : Similarity
        The similarity with its parameters, and the `scale` (p,) of the columns.
    gamma_ : float
        The gamma in use.
    certificate_ : Certificate
        Its ``objective`` is the minimised quantity over all rows.
    history_ : list of dict
        ``objective`` after each read (and ``validation_loss``, a mean squared error).
    n_features_in_, feature_names_in_, n_passes_

    Notes
    -----
    There is no `partial_fit`: a read scores several places for the prototypes on all rows and keeps
    the best, and scores of different rows cannot be compared; coefficients belong to prototypes
    that move, so those of rows that are gone would be of other functions.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import SuperSparseRegressor
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> model = SuperSparseRegressor(3).fit(X, np.sin(6 * X[:, 0]))
    >>> round(model.score(X, np.sin(6 * X[:, 0])), 3)
    1.0
    """

    def __init__(
        self,
        n_prototypes: int = 10,
        *,
        similarity: SimilarityParameter = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float | str = "auto",
        repulsion: float = 0.0,
        init: npt.ArrayLike = "rows",
        neighbours: Neighbours | None = None,
        scaling: str = "auto",
        schedule: str = "all",
        n_passes: int = 20,
        tol: float = 1e-3,
        random_state: int = 0,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self._store(locals())


class SuperSparseClassifier(SuperSparseModel, StreamClassifier):
    """Classifier whose decision is a sum of similarities to a few prototypes that it trains.

    The prototypes are those of `SuperSparseRegressor` for targets -1 and 1; more than two classes
    have one target each and share the prototypes.  Then the coefficients are refitted:

        minimise  1/W sum_i u_i l(y_i, K_i theta) + ridge |beta|^2

    over theta alone, l = log(1 + exp(-y f)) or the cross entropy of the softmax.

    Parameters
    ----------
    n_prototypes : int, default=10
    loss : {"log_loss", "squared_error"}, default="log_loss"
        Loss that the coefficients minimise.  With "log_loss" decisions are log odds, and there are
        probabilities; rows that are not all in memory are read a few times more.  "squared_error"
        is the paper's.
    class_weight : None, "balanced" or dict, default=None
        As in `AdditiveClassifier`: factors of the rows' weights by class.
    similarity, gamma, degree, coef0, ridge, repulsion, init, neighbours, scaling, \
schedule, n_passes, tol, random_state, encoding
        As in `SuperSparseRegressor`; `n_passes` does not count the refit's reads.

    Attributes
    ----------
    classes_, prototypes_, coef_, intercept_, increase_, similarity_, gamma_, certificate_, \
history_, n_features_in_, feature_names_in_, n_passes_
        As in `SuperSparseRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from streamlearn import SuperSparseClassifier
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> round(SuperSparseClassifier(6).fit(X, y).score(X, y), 2)
    0.98
    """

    _parameter_constraints: dict[str, list[object]] = {
        **SuperSparseModel._parameter_constraints,
        "loss": [StrOptions({"squared_error", "log_loss"})],
        "class_weight": CONSTRAINT,
    }

    def __init__(
        self,
        n_prototypes: int = 10,
        *,
        loss: str = "log_loss",
        similarity: SimilarityParameter = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float | str = "auto",
        repulsion: float = 0.0,
        init: npt.ArrayLike = "rows",
        neighbours: Neighbours | None = None,
        scaling: str = "auto",
        schedule: str = "all",
        n_passes: int = 20,
        tol: float = 1e-3,
        random_state: int = 0,
        class_weight: object = None,
        encoding: dict[str, str] | None = None,
    ) -> None:
        self._store(locals())

    def _finish(
        self, run: Recording, dataset: Source | None, rows: SampleObjective, whole: bool
    ) -> Certificate:
        certificate = super()._finish(run, dataset, rows, whole)
        if self.loss == "log_loss":
            scale = rows.problem.scale
            Z = self.prototypes_ if scale is None else self.prototypes_ * scale
            theta, value = refit(run, dataset, rows, Z, whole=whole, tol=0.1 * self.tol)
            run.record(log_loss_objective=value)
            self._set_theta(theta, rows.problem.shift)
        return certificate

    def _check_probability(self) -> None:
        if self.loss != "log_loss":
            raise AttributeError(
                f"loss={self.loss!r} gives no probabilities; use loss='log_loss', or "
                "decision_function"
            )

    def _probability(self, decision: np.ndarray) -> np.ndarray:
        return softmax_probabilities(decision)
