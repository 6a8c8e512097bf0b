"""Smoothness a term: the criterion's own optimum, mgcv's numbers, every loss and input."""

import numpy as np
import pytest
from additive_kit import table
from scipy.optimize import minimize

import streamlearn as sl
from streamlearn.additive.basis import column_bases
from streamlearn.additive.smooth.criteria import (
    CRITERIA,
    Quadratic,
    fit_at,
    gcv,
    gcv_score,
    least_weight,
    reml,
)
from streamlearn.additive.smooth.fitting import Point, Stand, Task, _Iteration
from streamlearn.additive.smooth.penalties import make_penalties
from streamlearn.numeric.bases.bsplines import functions_at, make_bases
from streamlearn.numeric.bases.roughness import make_roughness
from streamlearn.numeric.losses import LOSSES as EVERY_LOSS


def golden(n=300):
    """(X, y, classes, counts): columns and noise without a generator, as in the script below."""
    i = np.arange(n)
    X = np.column_stack([(i * 0.6180339887498949) % 1, (i * 0.7548776662466927) % 1])
    f = np.sin(6 * X[:, 0]) + 1.5 * X[:, 1] ** 2
    y = f + 0.6 * np.sin(1e4 * (i + 1) ** 1.5)
    u = (i * 0.5698402909980532) % 1
    classes = (u < 1 / (1 + np.exp(-2 * (f - 0.7)))).astype(int)
    return X, y, classes, np.floor(np.exp(f) * 2 * u + 0.5 * u)


# mgcv 1.8-41 in R 4.2.  B1, B2: the functions of each column (12 linear splines at `KNOTS`, less
# their means) times an orthonormal basis Q of the space without the constant, S1, S2: Q'PQ.
#   gam(y ~ B1 + B2, paraPen = list(B1 = list(S1), B2 = list(S2)), family = ..., method = "REML",
#       optimizer = "efs")$sp                # of y outer Newton gives the same
#   gam(..., method = "GCV.Cp")$sp
# The squared error is twice a half-deviance, and so is its weight.
MGCV = {
    ("y", "reml"): (2 * np.array([0.08139764226, 0.47209374883]), [9.590349092, 6.667270835]),
    ("y", "gcv"): (2 * np.array([0.1880212889, 1.5388594013]), [8.442381306, 4.450122035]),
    ("classes", "reml"): ([0.1486409359, 0.6110052979], None),
    ("counts", "reml"): ([0.3157849874, 1.9893424516], None),
}
MGCV_SIGMA2 = 0.1672911508
# quantiles of each column, from a summary whose bins were 1/32 of the value wide
KNOTS = np.array(
    [
        [0.0, 0.09037642045454546, 0.1807528409090909, 0.27035984848484845, 0.3622159090909091,
         0.4545454545454545, 0.5457386363636363, 0.6363636363636364, 0.7272727272727273,
         0.8181818181818182, 0.909090909090909, 0.996894379984866],
        [0.0, 0.08647017045454546, 0.1748934659090909, 0.27035984848484845, 0.3622159090909091,
         0.4506392045454545, 0.5457386363636363, 0.6363636363636364, 0.7255681818181818,
         0.8170454545454546, 0.9053977272727272, 0.997521957162661],
    ]
)  # fmt: skip


@pytest.mark.parametrize(("target", "smoothness"), MGCV)
def test_weights_and_degrees_of_freedom_are_those_of_mgcv(target, smoothness, monkeypatch):
    monkeypatch.setattr(column_bases, "quantile_points", lambda *given: KNOTS)
    X, y, classes, counts = golden()
    how = {"smoothness": smoothness, "n_bases": 12, "intercept_scaling": 1e4, "tol": 1e-9}
    if target == "classes":
        model = sl.AdditiveClassifier(**how).fit(X, classes)
    elif target == "counts":
        model = sl.AdditiveRegressor("poisson", **how).fit(X, counts)
    else:
        model = sl.AdditiveRegressor(**how).fit(X, y)
    weights, freedom = MGCV[target, smoothness]
    np.testing.assert_allclose(model.smoothing_, weights, rtol=0.02)
    if freedom is not None:
        np.testing.assert_allclose(model.effective_dof_, freedom, rtol=0.001)
    if (target, smoothness) == ("y", "reml"):
        assert model.scale_ == pytest.approx(MGCV_SIGMA2, rel=1e-4)
    assert model.certificate_.converged


def quadratic_model(known, order=2, n=60, seed=3):
    """Explicit least squares on two columns: (model, penalties, design, targets)."""
    rng = np.random.default_rng(seed)
    bases = make_bases([np.linspace(0, 1, 6)] * 2, [2, 2])
    X = rng.random((n, 2))
    Phi = np.column_stack([functions_at(bases, d, 5 * X[:, d].astype(np.float32)) for d in (0, 1)])
    A = np.column_stack([Phi - Phi.mean(0), np.ones(n)])
    y = np.sin(5 * X[:, 0]) + rng.normal(0, 0.4, n)
    roughness = make_roughness(bases, order)
    penalties = make_penalties(bases, roughness, order, "integral", 1e-8, select=True)
    model = Quadratic(
        np.zeros(A.shape[1]), 0.5 * y @ y, -A.T @ y, A.T @ A, y @ y, n, n, not known, known, 0.0
    )
    return model, penalties, A, y


def restricted_likelihood(model, penalties, A, y, log_weights):
    """Minus its logarithm: y is normal with the covariance psi (I + A S^-1 A'), the mean free."""
    n = len(y)
    S = penalties.matrix(np.exp(log_weights))
    prior = A[:, :-1] @ np.linalg.solve(S[:-1, :-1], A[:, :-1].T)
    covariance, one = np.eye(n) + prior, np.ones(n)
    inverse = np.linalg.inv(covariance)
    u = one @ inverse @ one
    r = y - one * (one @ inverse @ y) / u
    square = r @ inverse @ r
    logs = np.linalg.slogdet(covariance)[1] + np.log(u)
    return 0.5 * (square + logs if model.known else (n - 1) * np.log(square) + logs)


@pytest.mark.parametrize("known", [False, True])
def test_reml_is_the_best_of_brute_force(known):
    model, penalties, A, y = quadratic_model(known)
    fit = reml(model, penalties, None)
    score = lambda log: restricted_likelihood(model, penalties, A, y, log)  # noqa: E731
    options = {"maxiter": 600, "xatol": 1e-3, "fatol": 1e-7}
    start, bounds = np.log(fit.weights) * 0.5, [(-20, 20)] * 4
    best = minimize(score, start, method="Nelder-Mead", bounds=bounds, options=options)
    assert score(np.log(fit.weights)) <= best.fun + 1e-3
    kept = fit.gamma > 0.05  # of those that vanish any large weight is as good
    np.testing.assert_allclose(np.log(fit.weights)[kept], best.x[kept], atol=0.02)


@pytest.mark.parametrize("known", [False, True])
def test_gcv_descends_its_own_slope_to_a_minimum(known):
    model, penalties, _, _ = quadratic_model(known)
    log = np.array([-1.0, 0.5, 0.3, -2.0])
    at = lambda x: gcv_score(model, penalties, fit_at(model, penalties, np.exp(x)))  # noqa: E731
    differences = [(at(log + 1e-5 * e)[0] - at(log - 1e-5 * e)[0]) / 2e-5 for e in np.eye(len(log))]
    np.testing.assert_allclose(at(log)[1], differences, rtol=1e-5, atol=1e-9)
    fit = gcv(model, penalties, None)
    found = at(np.log(fit.weights))[0]
    for seed in range(30):
        near = np.log(fit.weights) + np.random.default_rng(seed).normal(0, 1, len(log))
        assert at(near)[0] >= found - 1e-6


LOSSES = {
    "classifier": ["log_loss", "squared_hinge"],
    "regressor": [
        "squared_error",
        "squared_epsilon_insensitive",
        "huber",
        "poisson",
        "gamma",
        "negative_binomial",
    ],
}


@pytest.mark.parametrize("smoothness", ["reml", "gcv"])
@pytest.mark.parametrize("loss", [loss for losses in LOSSES.values() for loss in losses])
def test_every_smooth_loss_reaches_the_optimum_of_its_own_weights(loss, smoothness):
    X, classes = table(n=300)
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 3, len(X)).astype(float)
    how = {"smoothness": smoothness, "n_bases": 8, "tol": 1e-7}
    if loss in LOSSES["classifier"]:
        model, y = sl.AdditiveClassifier(loss, **how), classes
    else:
        y = 1.0 + 2 * classes + rng.random(len(X))
        model = sl.AdditiveRegressor(loss, **how)
    model.fit(X, np.floor(y) if loss == "poisson" else y, weight)
    certificate = model.certificate_
    assert certificate.converged
    assert certificate.relative_gap <= 1e-7
    assert np.isinf(model.smoothing_[3])  # constant
    assert model.effective_dof_[3] == 0
    assert (model.effective_dof_[[0, 1, 2, 4]] > 0).all()
    assert model.effective_dof_.sum() < 30


def test_terms_of_noise_vanish():
    rng = np.random.default_rng(1)
    X = rng.random((3000, 5))
    y = 2 * X[:, 0] + np.sin(7 * X[:, 1]) + rng.normal(0, 0.5, len(X))
    shape = {"smoothness": "reml", "degree": 3, "penalty_order": 2}
    kept = sl.AdditiveRegressor(**shape).fit(X, y)
    chosen = sl.AdditiveRegressor(**shape, select=True).fit(X, y)
    assert (kept.effective_dof_ > 0.99).all()  # straight lines are free
    assert np.sort(chosen.effective_dof_)[:2].max() < 0.05
    assert chosen.effective_dof_[0] == pytest.approx(1, abs=0.1)
    assert chosen.effective_dof_[1] > 4
    assert (kept.line_smoothing_ == kept.line_smoothing_[0]).all()
    assert chosen.line_smoothing_[2] > 100 * chosen.line_smoothing_[0]


def test_classes_and_categories_have_their_own_weights():
    import pandas as pd

    X, y = table(n=500, n_classes=3)
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["word"] = np.array(["x", "y", "z"])[y]
    frame.loc[::7, "a"] = np.nan
    model = sl.AdditiveClassifier(smoothness="reml", n_bases=6, tol=1e-6).fit(frame, y)
    assert model.smoothing_.shape == model.effective_dof_.shape == (6, 3)
    assert model.certificate_.converged
    assert (model.effective_dof_[5] > 1).all()


def test_sparse_rows_and_other_bases_are_smoothed_alike():
    from scipy.sparse import csr_matrix

    X, y = table(n=400)
    X[X < 0.2] = 0.0
    how = {"smoothness": "reml", "n_bases": 6, "tol": 1e-8}
    dense = sl.AdditiveClassifier(**how, knots="uniform").fit(X, y)
    sparse = sl.AdditiveClassifier(**how, knots="uniform").fit(csr_matrix(X), y)
    np.testing.assert_allclose(sparse.effective_dof_, dense.effective_dof_, rtol=0.02, atol=0.01)
    cosine = sl.AdditiveClassifier(**how, basis="cosine").fit(X, y)
    assert cosine.certificate_.converged


def test_the_bits_are_those_of_any_workers_and_of_a_resumed_fit(tmp_path):
    X, y = table(n=3000)
    path = tmp_path / "rows.parquet"
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["y"] = y
    frame.to_parquet(path, row_group_size=200)
    data = sl.open_dataset(path, target="y")

    def fit(scheduler, **how):
        with sl.config_context(scheduler=scheduler):
            return sl.AdditiveClassifier(smoothness="reml", n_bases=6).fit(data, **how)

    one, two = fit("synchronous"), fit("threads")
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.smoothing_, two.smoothing_)
    kept = fit("threads", checkpoint=tmp_path / "kept")
    again = fit("synchronous", checkpoint=tmp_path / "kept")
    for model in (kept, again):
        np.testing.assert_array_equal(model.coef_, one.coef_)
        np.testing.assert_array_equal(model.effective_dof_, one.effective_dof_)


def test_no_smoothness_leaves_the_fit_as_it_was_and_knows_its_covariance():
    X, y = table()
    plain = sl.AdditiveClassifier(n_bases=6).fit(X, y)
    known = sl.AdditiveClassifier(n_bases=6, covariance=True).fit(X, y)
    np.testing.assert_array_equal(plain.coef_, known.coef_)
    assert known.n_passes_ == plain.n_passes_ + 1
    assert (known.smoothing_[:3] == 1.0).all()
    with pytest.raises(AttributeError, match="needs the covariance of the coefficients"):
        plain.effective_dof_  # noqa: B018


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"C": 2.0}, "so C has no say; leave C=2.0 out"),
        ({"early_stopping": True}, "early_stopping=True would end before"),
        ({"solver": "lbfgs"}, "which solver='lbfgs' does not sum up; use solver='newton'"),
        ({"loss": "hinge"}, "needs a smooth loss, loss='hinge' has no curvature"),
        ({"multi_class": "multinomial"}, "is one problem of all; use multi_class='ovr'"),
        ({"smoothness": None, "select": True}, "select=True is a choice of the terms' smoothness"),
        ({"n_bases": 256}, "a matrix of 7680 coefficients for each of 1 outputs, 450.0 MiB"),
    ],
)
def test_what_has_no_say_or_no_curvature_is_refused_by_name(parameters, says):
    X, y = np.random.default_rng(0).random((300, 30)), np.arange(300) % 2
    model = sl.AdditiveClassifier(**({"smoothness": "reml"} | parameters))
    with pytest.raises(ValueError, match=says):
        model.fit(X, y)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_weights_of_terms_without_curvature_stay_above_the_least(criterion):
    # all rows of some values are of one class: their decisions leave for infinity, curvature for 0
    model, penalties, _, _ = quadratic_model(True)
    mute = penalties.each[-1].at
    H, g, theta = model.H.copy(), model.g.copy(), model.theta.copy()
    H[mute] *= 1e-9
    H[:, mute] *= 1e-9
    g[mute], theta[mute] = -1e-9, np.linspace(-1e6, 1e6, mute.stop - mute.start)
    far = model._replace(H=H, g=g, theta=theta)
    least = np.array([1e-3 * p.size / np.trace(p.S) for p in penalties.each])
    weights = CRITERIA[criterion].choose(far._replace(least=1e-3), penalties, None).weights
    assert (weights >= least * (1 - 1e-9)).all()
    if criterion == "reml":  # which would let them go on
        assert weights[2:] == pytest.approx(least[2:])
        with pytest.raises(ValueError, match="not positive definite to rounding"):
            reml(far, penalties, None)


def test_decisions_that_are_logarithms_have_least_weights():
    assert {name for name, loss in EVERY_LOSS.items() if least_weight(loss()) > 0} == {
        *("log_loss", "poisson", "gamma", "tweedie", "negative_binomial"),
    }


def test_a_point_far_worse_than_foretold_is_no_step_whatever_the_weights():
    # heavier weights make much of the penalty where one stands: any point seems to be an advance
    model, penalties, _, _ = quadratic_model(True)
    light, heavy = np.full(4, 1e-3), np.full(4, 1e6)
    here = Point(model.moved(fit_at(model, penalties, light).theta), 0.0)
    target = fit_at(here.model, penalties, heavy)
    stand = Stand(here, light, target, target, False, 1.0, np.inf, np.zeros(4), np.ones(4))
    iteration = _Iteration(Task(None, penalties, CRITERIA["reml"], np.zeros(1), 1e-4, 5))
    there = here.model.moved(target.theta)
    assert iteration._after(stand, Point(there, 0.0)).point.model is there
    worse = there._replace(value=there.value + 1e3)
    after = iteration._after(stand, Point(worse, 0.0))
    assert after.point is here
    assert after.reach < np.inf


def test_a_weight_that_turns_round_goes_half_as_far():
    model, penalties, _, _ = quadratic_model(True)
    weights = np.ones(4)
    chosen = fit_at(model, penalties, np.exp([1.0, -1.0, 1.0, -1.0]))
    last = np.array([1.0, 1.0, -1.0, 0.0])
    stand = Stand(
        Point(model, 0.0),
        weights,
        chosen,
        chosen,
        False,
        1.0,
        np.inf,
        last,
        np.array([1.0, 0.5, 0.5, 1.0]),
    )
    iteration = _Iteration(Task(None, penalties, CRITERIA["reml"], np.zeros(1), 1e-4, 5))
    target = iteration._aimed(stand).target
    np.testing.assert_allclose(np.log(target.weights), [1.0, -0.5, 0.5, -1.0])
