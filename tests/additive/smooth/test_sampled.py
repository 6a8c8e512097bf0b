"""Beside pairs, with neither C nor smoothness given, a sample says how much a curve is smoothed."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from additive.smooth.test_default import AWKWARD, awkward, is_like, kind_of, target_of
from additive_kit import as_dataset, make_problem, table

import streamlearn as sl
from streamlearn.additive import model as additive_model
from streamlearn.additive.basis import resolution
from streamlearn.additive.costs.solver_choice import solvers_of
from streamlearn.additive.pairs import AUTO_PAIRS
from streamlearn.additive.smooth import costs as smooth_costs
from streamlearn.additive.smooth.penalties import make_penalties
from streamlearn.additive.smooth.sampled import weighed
from streamlearn.numeric.losses import LOSSES, make_loss

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
PAIR = {"interactions": [(0, 1)], "n_bases": 5}


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    monkeypatch.setattr(smooth_costs, "LEAST_ROWS", 200)


def weighed_problem(monkeypatch, model, X, y):
    """The problem of curves of a fit, before and after it is weighed."""
    found, weigh = [], additive_model.weigh_curves

    def kept(own, problem, *args):
        curves = weigh(own, problem, *args)
        found.extend([problem, curves.problem])
        return curves

    with monkeypatch.context() as patch:
        patch.setattr(additive_model, "weigh_curves", kept)
        model.fit(X, y)
    return found


def block(roughness, name, d):
    n = int(np.diff(roughness.first)[d])
    at = int(roughness.table[d])
    return getattr(roughness, name)[at : at + n * n].reshape(n, n)


@pytest.mark.parametrize("kind", [sl.AdditiveRegressor, sl.AdditiveClassifier])
def test_the_weights_are_those_of_reml(kind, monkeypatch):
    X, y = table(1500)
    before, after = weighed_problem(monkeypatch, kind(**PAIR), X, y)
    reml = kind(n_bases=5, smoothness="reml").fit(X, y)
    for d in (0, 1, 2, 4):
        ratio = block(after.roughness, "P", d) / block(before.roughness, "P", d)
        weight = np.clip(np.ravel(reml.smoothing_)[d], 1e-4, 1e6)
        np.testing.assert_allclose(ratio, weight, rtol=0.05)
    before, after = weighed_problem(monkeypatch, kind(**PAIR, C=2.0), X, y) or (None, None)
    assert before is after is None


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("missing", [False, True])
def test_weighed_penalties_and_their_factors_agree(order, missing):
    X, y = table(300)
    if missing:
        X[::7, 1] = np.nan
    problem, _ = make_problem(as_dataset(X, y), "log_loss", order=order, degree=max(order, 1))
    penalties = make_penalties(problem.bases, problem.roughness, order, "integral", 1.0, False)
    weights = np.linspace(0.1, 30.0, len(penalties.each))
    found = weighed(problem.roughness, penalties, weights)
    for one, numbers in penalties.by_term():
        P, L, R = (block(found, name, one.term) for name in "PLR")
        expected = sum(
            penalties.each[j].S * (1.0 if penalties.each[j].fixed else weights[j]) for j in numbers
        )
        np.testing.assert_allclose(P, expected)
        np.testing.assert_allclose(R.T @ R, P, atol=1e-9 * abs(P).max())
        np.testing.assert_allclose(L @ P, np.eye(len(P)), atol=1e-6)
    same = weighed(problem.roughness, penalties, np.ones(len(weights)))
    for d in np.flatnonzero(np.diff(problem.bases.first)):
        expected = block(problem.roughness, "P", d)
        np.testing.assert_allclose(block(same, "P", d), expected, atol=1e-12 * abs(expected).max())


def test_a_jagged_column_beside_a_smooth_one_and_a_pair():
    rng = np.random.default_rng(0)
    X = rng.random((12_000, 4))
    f = np.sign(np.sin(50 * X[:, 0])) + X[:, 1] + 8 * (X[:, 2] - 0.5) * (X[:, 3] - 0.5)
    y = f + rng.normal(0, 1, len(X))
    train, test = slice(0, 8000), slice(8000, None)
    scores = {}
    for name, given in (("weighed", {}), ("one C", {"C": 1.0}), ("alone", None)):
        options = {"interactions": 0} if given is None else {"interactions": [(2, 3)], **given}
        model = sl.AdditiveRegressor(**options).fit(X[train], y[train])
        scores[name] = model.score(X[test], y[test])
        assert model.certificate_.converged
    assert scores["weighed"] > scores["one C"] + 0.01
    assert scores["weighed"] > scores["alone"] + 0.05


CASES = [
    (loss, solver)
    for loss in LOSSES
    for solver in ("auto", *solvers_of(make_loss(loss)))
]  # fmt: skip


@pytest.mark.parametrize(("loss", "solver"), CASES)
def test_every_loss_and_solver_is_weighed_or_of_one_C(loss, solver, monkeypatch):
    X, y = table(300)
    y = target_of(loss, X, y)
    model = kind_of(loss)(loss, solver=solver, max_passes=40, **PAIR)
    found = weighed_problem(monkeypatch, model, X, y)
    assert bool(found) == make_loss(loss).has("curvature")
    assert ("smoothed as 'reml'" in model.certificate_.reason) == bool(found)
    if not found:
        parameters = {"loss": loss, "solver": solver, "max_passes": 40, **PAIR}
        assert is_like(kind_of(loss), parameters, X, y, C=1.0)


def test_where_one_C_stays(monkeypatch):
    X, y = table(300)
    _, three = table(300, n_classes=3)
    stopping = {"early_stopping": True, **PAIR}
    assert is_like(sl.AdditiveClassifier, stopping, X, y, C=1.0)
    joint = {"multi_class": "multinomial", **PAIR}
    assert is_like(sl.AdditiveClassifier, joint, X, three, C=1.0)
    apart = {"multi_class": "ovr", **PAIR}
    assert not is_like(sl.AdditiveClassifier, apart, X, three, C=1.0)
    monkeypatch.setattr(smooth_costs, "LEAST_ROWS", 301)
    assert is_like(sl.AdditiveClassifier, PAIR, X, y, C=1.0)
    monkeypatch.setattr(smooth_costs, "LEAST_ROWS", 200)
    monkeypatch.setattr(resolution, "CURVATURE_NBYTES", 8 * 12**2)
    assert is_like(sl.AdditiveClassifier, PAIR, X, y, C=1.0)


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tables_are_fitted(name, monkeypatch):
    X, y = awkward(name)
    pairs = {} if name == "constant columns alone" else {"interactions": 1}
    model = sl.AdditiveClassifier(n_bases=5, **pairs)
    if name == "sparse":
        with pytest.raises(ValueError, match="does not go with sparse rows"):
            model.fit(X, y)
        return
    before, after = weighed_problem(monkeypatch, model, X, y) or (None, None)
    assert (after is not None) == bool(pairs)
    assert np.isfinite(model.predict_proba(X)).all()


def test_the_plan_knows_the_sample_and_its_matrices():
    X, y = table(300)
    names = [name for name, _ in sl.plan(sl.AdditiveClassifier(**PAIR), X).terms]
    assert "curves" in names
    assert "curves" not in [
        name for name, _ in sl.plan(sl.AdditiveClassifier(C=1.0, **PAIR), X).terms
    ]
    model = sl.AdditiveClassifier(**PAIR).fit(X, y)
    fewest, most = model.plan_.passes
    assert fewest <= model.n_passes_ <= most


@pytest.mark.parametrize("budget", ["64MiB", "128MiB", "256MiB"])
@pytest.mark.parametrize("interactions", [AUTO_PAIRS, [("x0", "x1")], [("x0", "w0")]])
def test_no_budget_is_refused_that_one_C_keeps(interactions, budget, tmp_path):
    """Columns of words of unknown levels may have 255 each: such curves are not weighed."""
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.random(2000) for j in range(10)}
    columns |= {f"w{j}": np.array(["a", "b", "c"])[rng.integers(0, 3, 2000)] for j in range(6)}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({**columns, "y": (columns["x0"] > 0.5).astype(int)}), path)
    data = sl.open_dataset(path, target="y")

    def is_kept(**more):
        try:
            sl.plan(sl.AdditiveClassifier(interactions=interactions, **more), data)
        except sl.MemoryBudgetError:
            return False
        return True

    with sl.config_context(memory_budget=budget):
        assert is_kept() == is_kept(C=1.0)
        assert is_kept() or budget == "64MiB"
