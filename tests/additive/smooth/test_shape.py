"""Curves held to a shape: none is violated, and each optimum is that of an independent solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

import streamlearn as sl
from streamlearn.additive.smooth.shape import make_cone
from streamlearn.numeric.bases.bsplines import evaluate
from streamlearn.numeric.bases.roughness import make_roughness


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    X[:, 2] = np.floor(5 * X[:, 2])  # a coefficient a value
    X[::11, 0] = np.nan
    f = np.sin(4 * np.nan_to_num(X[:, 0])) + (X[:, 1] - 0.3) ** 2 + 0.3 * X[:, 2] % 0.7
    return X, f + 0.5 * rng.normal(size=n)


SHAPES = {
    "rises": {"monotone": {0: 1, 2: 1}},
    "falls": {"monotone": {"x0": -1, "x1": -1}},
    "convex": {"convex": {0: 1, 1: 1}},
    "rises and is concave": {"monotone": {0: 1, 1: 1}, "convex": {0: -1, 1: -1}},
    "falls and is concave": {"monotone": {2: -1}, "convex": {2: -1}},
    "rises, cubic": {"monotone": {0: 1}, "degree": 3},
    "convex, quadratic": {"convex": {1: 1}, "degree": 2, "knots": "uniform"},
}


def frame(X):
    import pandas as pd

    return pd.DataFrame(X, columns=["x0", "x1", "x2"])


def signs(model, d):
    """The signs that column d's slope and bend were given."""
    given = (model.monotone or {}, model.convex or {})
    return [one.get(d, one.get(f"x{d}", 0)) for one in given]


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "poisson"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_curve_is_violated_and_the_optimum_is_that_of_scipy(shape, loss):
    X, y = rows()
    how = {"C": 3.0, "n_bases": 6, "tol": 1e-7} | SHAPES[shape]
    if loss == "log_loss":
        y = y > 0.8
        model = sl.AdditiveClassifier(**how).fit(frame(X), y)
    else:
        y = np.floor(np.exp(y)) if loss == "poisson" else y
        model = sl.AdditiveRegressor(loss, **how).fit(frame(X), y)
    assert model.certificate_.converged
    assert model.certificate_.relative_gap <= 1e-7
    for d in range(3):
        knots, (rises, bends) = model.knots_[d], signs(model, d)
        curve = model.shape_function(d, np.linspace(knots[0], knots[-1], 10_000))
        assert (rises * np.diff(curve) >= -1e-12).all()
        # coordinates have the precision of float32
        chord = 0.5 * (curve[:-200] + curve[200:]) - curve[100:-100]
        assert (bends * chord >= -1e-6 * np.ptp(curve)).all()
    found = independent(model, X, y, loss)
    # terms are centred by the summary's means, of binned values: the intercept's penalty differs
    assert model.certificate_.primal == pytest.approx(found, rel=1e-6)
    assert model.certificate_.dual <= found * (1 + 1e-6)


def independent(model, X, y, loss):
    """The least objective among curves of the shape, by SLSQP or trust regions on all rows."""
    bases = model.bases_
    Phi = np.column_stack([evaluate(bases, d, X[:, d]) for d in range(3)])
    A = np.column_stack([Phi - Phi.mean(0), np.ones(len(X))])
    roughness = make_roughness(bases, 1)
    P = np.eye(bases.dim + 1)
    for d in range(3):
        a, z = bases.first[d : d + 2]
        n, begin = z - a, roughness.table[d]
        P[a:z, a:z] = roughness.P[begin : begin + n * n].reshape(n, n)
    shapes = {d: tuple(signs(model, d)) for d in range(3) if any(signs(model, d))}
    G = make_cone(bases, shapes).G
    G = np.column_stack([G, np.zeros(len(G))])
    y = np.where(y, 1.0, -1.0) if loss == "log_loss" else y - y.mean() * (loss != "poisson")

    def objective(theta):
        f = A @ theta
        if loss == "squared_error":
            value, slope = (y - f) ** 2, 2 * (f - y)
        elif loss == "log_loss":
            value, slope = np.logaddexp(0, -y * f), -y / (1 + np.exp(y * f))
        else:  # counts over their mean, of its weight
            t, m = y / y.mean(), y.mean()
            value = m * (
                np.where(t > 0, t * (np.log(np.maximum(t, 1e-300)) - f), 0) - t + np.exp(f)
            )
            slope = m * (np.exp(f) - t)
        total = 0.5 * theta @ P @ theta + model.C * value.sum()
        return total, P @ theta + model.C * (A.T @ slope)

    start = np.zeros(A.shape[1])
    scale = objective(start)[0]
    scaled = lambda theta: tuple(part / scale for part in objective(theta))  # noqa: E731
    result = minimize(scaled, start, jac=True, method="SLSQP",
                      constraints={"type": "ineq", "fun": lambda w: G @ w, "jac": lambda w: G},
                      options={"maxiter": 500, "ftol": 1e-14})  # fmt: skip
    return objective(result.x)[0]


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"monotone": {"x9": 1}}, "monotone='x9' is none of the columns"),
        ({"monotone": {"x0": 2}}, "must be 1 or -1"),
        ({"monotone": {"x0": 1}, "smoothness": "reml"}, "is chosen for curves that nothing holds"),
        ({"monotone": {"x0": 1}, "covariance": True}, "of coefficients that nothing holds"),
        ({"monotone": {"x0": 1}, "warm_start": True}, "may begin at curves of another shape"),
        ({"monotone": {"x0": 1}, "early_stopping": True}, "has no certificate of the shape"),
        ({"monotone": {"x0": 1}, "solver": "dual-cd"}, "use solver='newton'"),
        ({"monotone": {"x0": 1}, "loss": "hinge"}, "needs a smooth loss, loss='hinge'"),
        ({"monotone": {"x0": 1}, "basis": "cosine"}, "are shapes of splines, got basis='cosine'"),
        ({"convex": {"x0": 1}, "degree": 2}, "is no matter of neighbouring coefficients"),
        ({"convex": {"word": 1}}, "holds categories that have no order"),
    ],
)
def test_shapes_that_cannot_be_held_are_refused_by_name(parameters, says):
    X, y = rows()
    table = frame(X)
    table["word"] = np.where(y > 0, "a", "b")
    with pytest.raises(ValueError, match=says):
        sl.AdditiveClassifier(**parameters).fit(table, y > 0.8)


def test_several_classes_and_streams_are_refused():
    X, y = rows()
    with pytest.raises(ValueError, match="are of one decision, and 3 classes have as many"):
        sl.AdditiveClassifier(monotone={1: 1}).fit(X, np.digitize(y, [0.3, 0.9]))
    with pytest.raises(ValueError, match="takes the curvature of all rows, and partial_fit sees"):
        sl.AdditiveClassifier("hinge", monotone={1: 1}).partial_fit(X, y > 0.8, classes=[0, 1])
