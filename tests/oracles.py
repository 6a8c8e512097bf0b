"""Slow and plain versions of what the package computes, and what must hold whatever computed it."""

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy
from scipy.stats import nbinom

EPSILON = 0.1
QUANTILE = 0.8
DISPERSION = 0.6
LOSS = {
    "log_loss": lambda y, f: np.logaddexp(0, -y * f),
    "squared_hinge": lambda y, f: np.maximum(0, 1 - y * f) ** 2,
    "hinge": lambda y, f: np.maximum(0, 1 - y * f),
    "squared_error": lambda y, f: (y - f) ** 2,
    "epsilon_insensitive": lambda y, f: np.maximum(0, abs(y - f) - EPSILON),
    "squared_epsilon_insensitive": lambda y, f: np.maximum(0, abs(y - f) - EPSILON) ** 2,
    "huber": lambda y, f: np.where(
        abs(y - f) <= EPSILON, 0.5 * (y - f) ** 2, EPSILON * (abs(y - f) - 0.5 * EPSILON)
    ),
    "poisson": lambda y, f: xlogy(y, y) - y * f - y + np.exp(f),
    "gamma": lambda y, f: y * np.exp(-f) - 1 - np.log(y) + f,
    "tweedie": lambda y, f: (
        -4 * np.sqrt(y) + 2 * y * np.exp(-f / 2) + 2 * np.exp(f / 2)  # of power 3/2
    ),
    "negative_binomial": lambda y, f: (  # half the deviance, of scipy's log-probabilities
        nbinom.logpmf(np.round(y), 1 / DISPERSION, 1 / (1 + DISPERSION * np.maximum(y, 1e-300)))
        - nbinom.logpmf(np.round(y), 1 / DISPERSION, 1 / (1 + DISPERSION * np.exp(f)))
    ),
    "quantile": lambda y, f: np.maximum(QUANTILE * (y - f), (QUANTILE - 1) * (y - f)),
}
"""y is +1 / -1, or a number."""
LOG_LINK = ("poisson", "tweedie", "gamma", "negative_binomial")
"""Losses of the logarithm of a mean."""
HOMOGENEITY = {"poisson": 1.0, "tweedie": 0.5, "gamma": 0.0}
"""By which power of an exposure a row's weight is multiplied."""

SLOPE = {
    "log_loss": lambda y, f: -y / (1 + np.exp(y * f)),
    "squared_hinge": lambda y, f: -2 * y * np.maximum(0, 1 - y * f),
    "squared_error": lambda y, f: 2 * (f - y),
    "squared_epsilon_insensitive": lambda y, f: (
        2 * np.sign(f - y) * np.maximum(0, abs(f - y) - EPSILON)
    ),
    "huber": lambda y, f: np.clip(f - y, -EPSILON, EPSILON),
    "poisson": lambda y, f: np.exp(f) - y,
    "gamma": lambda y, f: 1 - y * np.exp(-f),
    "tweedie": lambda y, f: np.exp(f / 2) - y * np.exp(-f / 2),
    "negative_binomial": lambda y, f: (np.exp(f) - y) / (1 + DISPERSION * np.exp(f)),
}


@dataclass(frozen=True)
class LinearProblem:
    """1/2 |v|^2 + C sum s l(y, A v + c) on explicit features, A's last column B."""

    A: np.ndarray
    y: np.ndarray
    loss: str
    C: float
    weight: np.ndarray
    offset: float = 0.0
    """c: the logarithm of the targets' mean, of which a decision is 0."""

    def objective(self, v):
        losses = LOSS[self.loss](self.y, self.A @ v + self.offset)
        return 0.5 * v @ v + self.C * self.weight @ losses

    def gradient(self, v):
        slopes = SLOPE[self.loss](self.y, self.A @ v + self.offset)
        return v + self.C * self.A.T @ (self.weight * slopes)


def linear_problem(embedding, X, y, loss, C=1.0, weight=None, intercept_scaling=1.0):
    """The problem an additive model solves, written out with a fitted `SplineEmbedding`."""
    Psi = embedding.transform(X).toarray()
    A = np.column_stack([Psi, np.full(len(Psi), float(intercept_scaling))])
    weight = np.ones(len(A)) if weight is None else weight
    return LinearProblem(A, np.asarray(y, float), loss, C, weight)


def liblinear(problem):
    """The optimum by LIBLINEAR, (v, objective)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if problem.loss == "log_loss":
        solver = LogisticRegression(
            C=problem.C, solver="liblinear", fit_intercept=False, tol=1e-10, max_iter=10_000
        )
    else:
        hinge = problem.loss == "hinge"
        solver = LinearSVC(
            C=problem.C,
            loss=problem.loss,
            fit_intercept=False,
            dual=hinge,
            tol=1e-7 if hinge else 1e-9,
            max_iter=200_000,
        )
    v = solver.fit(problem.A, problem.y, sample_weight=problem.weight).coef_[0]
    return v, problem.objective(v)


def least_squares(problem):
    """The optimum for squared error by a direct solve, (v, objective)."""
    A, s = problem.A, 2 * problem.C * problem.weight
    v = np.linalg.solve(np.eye(A.shape[1]) + A.T @ (s[:, None] * A), A.T @ (s * problem.y))
    return v, problem.objective(v)


def smooth_optimum(problem):
    """The optimum of a smooth loss by scipy, (v, objective)."""
    from scipy.optimize import minimize

    v = np.zeros(problem.A.shape[1])
    for _ in range(3):  # restarts, as its tolerance is on the change of the value
        found = minimize(
            problem.objective, v, jac=problem.gradient, method="L-BFGS-B",
            options={
                "maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 50,
            },
        )  # fmt: skip
        v = found.x
    return v, float(found.fun)


def kinked_optimum(problem):
    """The optimum of a piecewise linear loss of numbers, (v, objective): of the dual, by scipy."""
    from scipy.optimize import minimize

    low, high, epsilon = {
        "epsilon_insensitive": (-1.0, 1.0, EPSILON), "quantile": (QUANTILE - 1, QUANTILE, 0.0),
    }[problem.loss]  # fmt: skip
    A, y, C, m = problem.A, problem.y, problem.C * problem.weight, len(problem.y)
    # the force of a row is u - t with u, t >= 0, each of which pays epsilon

    def dual(ut):
        v = A.T @ (ut[:m] - ut[m:])
        slope = A @ v - y
        value = 0.5 * v @ v - y @ (ut[:m] - ut[m:]) + epsilon * ut.sum()
        return value, np.concatenate([slope + epsilon, epsilon - slope])

    bounds = [*zip(0 * C, C * high, strict=True), *zip(0 * C, -C * low, strict=True)]
    ut = np.zeros(2 * m)
    for _ in range(4):
        ut = minimize(
            dual, ut, jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": 50_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-12},
        ).x  # fmt: skip
    v = A.T @ (ut[:m] - ut[m:])
    return v, problem.objective(v)


def multinomial_problem(embedding, X, y, weight, C):
    """(objective, probabilities) of scikit-learn's multinomial log-loss on the features."""
    from scipy.special import logsumexp
    from sklearn.linear_model import LogisticRegression

    Psi = embedding.transform(X).toarray()
    A = np.column_stack([Psi, np.ones(len(Psi))])
    model = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10_000)
    model.fit(A, y, sample_weight=weight)
    F = A @ model.coef_.T
    losses = logsumexp(F, axis=1) - F[np.arange(len(y)), y]
    objective = 0.5 * (model.coef_**2).sum() + C * weight @ losses
    return objective, model.predict_proba(A)


def gradient_by_differences(f, x, h=1e-4):
    """Central differences of fourth order."""
    g = np.empty_like(x)
    for i in range(len(x)):
        e = np.zeros_like(x)
        e[i] = h
        g[i] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * h)
    return g


def dense_splines(bases, X):
    """Phi of every row, by the reference evaluation, column by column."""
    from streamlearn.numeric.bases.bsplines import evaluate

    return np.hstack([evaluate(bases, d, X[:, d]) for d in range(X.shape[1])])


def repeat_rows(weight, *arrays):
    """What integer weights mean: each row so many times."""
    index = np.repeat(np.arange(len(weight)), weight.astype(int))
    return [a[index] for a in arrays]
