"""With neither C nor smoothness given: "reml" where it is cheap, else one C; never a refusal."""

import numpy as np
import pytest
from additive_kit import table
from scipy import sparse

import streamlearn as sl
from streamlearn.additive.basis import resolution
from streamlearn.additive.costs import solver_choice
from streamlearn.additive.costs.solver_choice import solvers_of
from streamlearn.additive.smooth import costs as smooth_costs
from streamlearn.numeric.losses import LOSSES, make_loss
from streamlearn.numeric.targets import CLASS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    monkeypatch.setattr(smooth_costs, "LEAST_ROWS", 200)


def kind_of(loss):
    return sl.AdditiveClassifier if make_loss(loss).target is CLASS else sl.AdditiveRegressor


def target_of(loss, X, y):
    return y if make_loss(loss).target is CLASS else np.floor(3 * X[:, 0] + X[:, 1]) + 1.0


def is_like(kind, parameters, X, y, **same):
    """Whether the fit with nothing said of C has the bits of the fit with `same`."""
    auto = kind(**parameters).fit(X, y)
    given = kind(**parameters, **same).fit(X, y)
    assert auto.certificate_.solver == given.certificate_.solver
    return np.array_equal(auto.coef_, given.coef_)


SOLVERS = [
    (loss, solver)
    for loss in LOSSES
    for solver in ("auto", *solvers_of(make_loss(loss)))
]  # fmt: skip


@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
def test_every_loss_and_solver_has_the_one_or_the_other(loss, solver):
    X, y = table(300)
    parameters = {"loss": loss, "solver": solver, "n_bases": 5, "max_passes": 12}
    chosen = make_loss(loss).has("curvature") and solver in ("auto", "newton")
    same = {"smoothness": "reml"} if chosen else {"C": 1.0}
    assert is_like(kind_of(loss), parameters, X, target_of(loss, X, y), **same)


ONE_C = {
    "rising": {"monotone": {0: 1}},
    "convex": {"convex": {0: 1}},
    "stopping": {"early_stopping": True},
    "warm": {"warm_start": True},
}
CHOSEN = {
    "nothing": {},
    "covariance": {"covariance": True},
    "cubic": {"degree": 3, "penalty_order": 2},
    "paper": {"penalty_scale": "paper", "penalty_order": 0},
    "cosine": {"basis": "cosine"},
}


@pytest.mark.parametrize("loss", ["log_loss", "huber"])
@pytest.mark.parametrize("option", [*ONE_C, *CHOSEN])
def test_every_option_has_the_one_or_the_other(loss, option):
    X, y = table(300)
    parameters = {"loss": loss, "n_bases": 5, **(ONE_C | CHOSEN)[option]}
    same = {"smoothness": "reml"} if option in CHOSEN else {"C": 1.0}
    assert is_like(kind_of(loss), parameters, X, target_of(loss, X, y), **same)


def awkward(name):
    X, y = table(300)
    if name == "twice one column":
        return np.column_stack([X, X[:, 0], X[:, 0]]), y
    if name == "one-hot":
        return np.column_stack([X, np.eye(4)[np.arange(300) % 4]]), y
    if name == "missing":
        X[::7, 1] = np.nan
    if name == "sparse":
        return sparse.csr_matrix(X * (X < 0.5)), y
    if name == "constant columns alone":
        return np.ones_like(X), y
    if name == "classes":
        return table(300, n_classes=3)
    if name == "separable":
        return X, (X[:, 0] > 0.5).astype(int)
    return X, y


AWKWARD = ["twice one column", "one-hot", "missing", "sparse", "constant columns alone",
           "classes", "separable"]  # fmt: skip


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tables_are_fitted(name):
    X, y = awkward(name)
    assert is_like(sl.AdditiveClassifier, {"n_bases": 5}, X, y, smoothness="reml")


def test_the_multinomial_loss_and_streams_have_one_C():
    X, y = table(300, n_classes=3)
    joint = {"multi_class": "multinomial", "n_bases": 5}
    assert is_like(sl.AdditiveClassifier, joint, X, y, C=1.0)
    streams = [sl.AdditiveClassifier(n_bases=5, C=C) for C in (None, 1.0)]
    a, b = (model.partial_fit(X, y, classes=[0, 1, 2]) for model in streams)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_small_tables_small_budgets_and_many_coefficients_have_one_C(monkeypatch):
    X, y = table(300)
    with sl.config_context(memory_budget="32MiB"):  # half: 16 matrices of 362 coefficients
        wide = np.tile(X[:, :2], 10)
        assert is_like(sl.AdditiveClassifier, {"n_bases": 20}, wide, y, C=1.0)
        assert is_like(sl.AdditiveClassifier, {"n_bases": 5}, wide, y, smoothness="reml")
    monkeypatch.setattr(resolution, "CURVATURE_NBYTES", 8 * 10**2)
    assert is_like(sl.AdditiveClassifier, {"n_bases": 5}, X, y, C=1.0)
    monkeypatch.setattr(resolution, "CURVATURE_NBYTES", 4 << 20)
    monkeypatch.setattr(smooth_costs, "LEAST_ROWS", 301)
    assert is_like(sl.AdditiveClassifier, {"n_bases": 5}, X, y, C=1.0)


@pytest.mark.parametrize("kind", [sl.AdditiveRegressor, sl.AdditiveClassifier])
def test_what_the_summary_finds_too_large_has_one_C_and_its_sample(kind, monkeypatch):
    pd = pytest.importorskip("pandas")
    X, y = table(300)
    words = pd.DataFrame({"a": X[:, 0], "b": [f"level {i % 40}" for i in range(300)]})
    monkeypatch.setattr(resolution, "CURVATURE_NBYTES", 8 * 30**2)  # 7 at least, 46 in fact
    monkeypatch.setattr(solver_choice, "GRAM_NBYTES", 0)
    assert is_like(kind, {"n_bases": 5}, words, y, C=1.0)


def test_the_choice_is_told_and_saved(tmp_path):
    X, y = table(300)
    model = sl.AdditiveClassifier(n_bases=5).fit(X, y)
    assert "smoothness='reml'" in model.certificate_.reason
    assert len(model.smoothing_) == X.shape[1]
    sl.save(model, tmp_path / "model.slm")
    again = sl.load(tmp_path / "model.slm")
    assert again.C is None
    assert str(again.summary_table()) == str(model.summary_table())
    assert "reml" in str(model.summary_table())


def test_a_fit_with_one_C_says_so_in_its_table():
    X, y = table(300)
    model = sl.AdditiveClassifier(n_bases=5, C=2.0, covariance=True).fit(X, y)
    assert "C=2" in str(model.summary_table())
    assert not np.isnan(model.effective_dof_).any()


@pytest.mark.parametrize("kind", [sl.AdditiveRegressor, sl.AdditiveClassifier])
def test_the_plan_before_the_summary_has_room_for_either(kind):
    X, y = table(300)
    auto, one_c = sl.plan(kind(), X), sl.plan(kind(C=1.0), X)
    phases = [name for name, _ in one_c.terms]
    chosen = ["smoothness", "smoothness, between reads"]
    assert [name for name, _ in auto.terms] == [*phases, *chosen]
    assert auto.peak_bytes >= one_c.peak_bytes
    assert auto.peak_bytes >= kind().fit(X, y).plan_.peak_bytes
