"""More than two classes with nothing said of the way: which parameters take which, and how."""

from pathlib import Path

import numpy as np
import pytest
from additive_kit import as_dataset, table
from scipy import sparse

import streamlearn as sl
from streamlearn.additive.costs import sizes, solver_choice
from streamlearn.additive.costs.solver_choice import solvers_of
from streamlearn.additive.multi_class import OPEN_NOTE
from streamlearn.additive.smooth import costs as smooth_costs
from streamlearn.numeric.losses import LOSSES, LogLoss, make_loss
from streamlearn.numeric.targets import CLASS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

JOINT, APART, REFUSED = "multinomial", "ovr", "of one decision, and 3 classes have as many"
STORED = Path(__file__).parent.parent / "stored" / "format-1"
X, Y = table(300, n_classes=3)
SMALL = {"n_bases": 5, "tol": 1e-3, "max_passes": 30}

WAYS = {
    "loss": [("squared_hinge", "squared_hinge"), ("hinge", "hinge"), (LogLoss(), JOINT)],
    "C": [(0.1, JOINT), (100.0, JOINT), (None, JOINT)],
    "n_bases": [("auto", JOINT), (3, JOINT)],
    "basis": [("cosine", JOINT), ("trigonometric", JOINT), ("hermite", JOINT)],
    "degree": [(2, JOINT), (3, JOINT)],
    "penalty_order": [(0, JOINT), (2, JOINT)],
    "penalty_scale": [("paper", JOINT)],
    "knots": [("uniform", JOINT)],
    "missing": [("error", JOINT)],
    "max_levels": [(3, JOINT)],
    "encoding": [(None, JOINT)],
    "interactions": [([(0, 1)], JOINT), (1, JOINT), ("auto", JOINT)],
    "solver": [("auto", JOINT), ("lbfgs", JOINT), ("newton", "solver='newton'"),
               ("dual-cd", "solver='dual-cd'"), ("pegasos", "solver='pegasos'")],
    "multi_class": [("ovr", ""), ("multinomial", JOINT)],
    "class_weight": [("balanced", JOINT), ({0: 3.0}, JOINT)],
    "intercept_scaling": [(2.0, JOINT)],
    "tol": [(1e-8, JOINT), (0.1, JOINT)],
    "max_passes": [(4, JOINT)],
    "early_stopping": [(True, JOINT)],
    "warm_start": [(True, JOINT)],
    "smoothness": [("reml", "smoothness='reml'"), ("gcv", "smoothness='gcv'")],
    "select": [(True, "smoothness='reml'")],
    "covariance": [(True, "covariance=True")],
    "monotone": [({0: 1}, REFUSED)],
    "convex": [({0: 1}, REFUSED)],
    "calibration": [("sigmoid", "calibration='sigmoid'"), ("isotonic", "calibration='isotonic'")],
    "random_state": [(1, JOINT)],
}  # fmt: skip
"""Parameter -> values, and for each the multinomial way, the reason for the other, or a refusal."""


CELLS = [
    pytest.param({name: value}, way, id=f"{name}={value}")
    for name, cells in WAYS.items()
    for value, way in cells
]


def test_every_parameter_is_walked():
    assert set(WAYS) == set(sl.AdditiveClassifier().get_params())
    classes = {name for name in LOSSES if make_loss(name).target is CLASS}
    assert {make_loss(loss).name for loss, _ in WAYS["loss"]} == classes
    assert {solver for solver, _ in WAYS["solver"]} >= set(solvers_of(LogLoss()))


@pytest.mark.parametrize(("parameters", "way"), CELLS)
def test_every_parameter_takes_one_way_and_says_which(parameters, way):
    given = {**SMALL, **parameters}
    if "select" in parameters:
        given["smoothness"] = "reml"
    more = {"validation": 0.2} if "early_stopping" in parameters else {}
    if way == REFUSED:
        with pytest.raises(ValueError, match=REFUSED):
            sl.AdditiveClassifier(**given).fit(X, Y)
        return
    model = sl.AdditiveClassifier(**given).fit(X, Y, **more)
    expected = JOINT if way == JOINT else APART
    assert model.multi_class_ == expected
    asked = sl.AdditiveClassifier(**{**given, "multi_class": expected}).fit(X, Y, **more)
    np.testing.assert_array_equal(model.coef_, asked.coef_)
    np.testing.assert_array_equal(model.intercept_, asked.intercept_)
    told = model.certificate_.reason
    assert ("one class against the rest as" in told) == (expected == APART and way != "")
    assert way == JOINT or way in told
    shown = dict(model._facts())["classes"]
    assert ("one multinomial problem" in shown) == (expected == JOINT)


def test_probabilities_are_the_softmax_of_the_decisions():
    model = sl.AdditiveClassifier(**SMALL).fit(X, Y)
    F = np.exp(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), F / F.sum(axis=1, keepdims=True), rtol=1e-9)
    total = model.explain(X).sum(axis=1) + model.intercept_
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("budget", ["64MiB", "1GiB"])
@pytest.mark.parametrize("parameters", [{}, {"C": 1.0}, {"interactions": 1}, {"solver": "dual-cd"}])
def test_two_classes_are_the_one_curve_with_the_same_plan(parameters, budget):
    y = Y > 0
    with sl.config_context(memory_budget=budget):
        a, b = (
            sl.AdditiveClassifier(multi_class=way, **SMALL, **parameters) for way in ("auto", APART)
        )
        plans = [sl.plan(model, X) for model in (a, b)]
        assert plans[0].terms == plans[1].terms
        assert plans[0].slice_rows == plans[1].slice_rows
        a.fit(X, y)
        b.fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert a.multi_class_ == APART
    assert a.certificate_.reason == b.certificate_.reason


def test_the_plan_says_that_classes_are_counted_later():
    assert OPEN_NOTE in str(sl.plan(sl.AdditiveClassifier(), X))
    for parameters in ({"multi_class": APART}, {"loss": "hinge"}, {"monotone": {0: 1}}):
        assert OPEN_NOTE not in str(sl.plan(sl.AdditiveClassifier(**parameters), X))
    model = sl.AdditiveClassifier(**SMALL).fit(X, Y)
    assert "lbfgs" in dict(model.plan_.terms)


def test_a_smoothness_that_is_chosen_takes_one_class_at_a_time(monkeypatch):
    monkeypatch.setattr(smooth_costs, "LEAST_ROWS", 200)
    pair = {"interactions": 1}
    for parameters, why in (({}, "smoothness='reml'"), (pair, "beside interactions")):
        model = sl.AdditiveClassifier(**SMALL, **parameters).fit(X, Y)
        assert model.multi_class_ == APART
        assert why in model.certificate_.reason
        assert sl.AdditiveClassifier(C=1.0, **SMALL, **parameters).fit(X, Y).multi_class_ == JOINT


def test_a_table_too_wide_for_newton_draws_its_sample_when_classes_are_counted(monkeypatch):
    monkeypatch.setattr(solver_choice, "NEWTON_DIM", 10)
    monkeypatch.setattr(sizes, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(sizes, "SAMPLE_NBYTES", 0)
    two, many = sl.AdditiveClassifier(**SMALL), sl.AdditiveClassifier(**SMALL)
    assert many._sample_rows(as_dataset(X, Y)) == 0  # two classes have the plan that they had
    assert two.fit(X, Y > 0).certificate_.solver == "dual-cd"
    many.fit(as_dataset(X, Y, rows=40))
    assert (many.multi_class_, many.certificate_.solver) == (JOINT, "lbfgs")
    asked = sl.AdditiveClassifier(multi_class=JOINT, **SMALL).fit(as_dataset(X, Y, rows=40))
    np.testing.assert_array_equal(many.coef_, asked.coef_)
    assert many.n_passes_ == asked.n_passes_ + 1
    assert "sample" in dict(many.plan_.terms)
    pairs = sl.AdditiveClassifier(**SMALL, interactions=[(0, 1)]).fit(X, Y)
    assert (pairs.multi_class_, pairs.certificate_.solver) == (JOINT, "lbfgs")
    rows = sl.AdditiveClassifier(**SMALL).fit(sparse.csr_matrix(X), Y)
    few = sl.AdditiveClassifier(**SMALL | {"max_passes": 2}).fit(X, Y)
    for model, what in (
        (rows, "sparse rows of so many coefficients"),
        (few, "max_passes=2 leaves no read"),
    ):
        assert model.multi_class_ == APART
        assert what in model.certificate_.reason


def test_a_budget_that_does_not_hold_one_problem_takes_the_other(monkeypatch):
    # of 300 rows in three classes
    monkeypatch.setattr(solver_choice, "room_of_matrices", lambda: 40_000)
    model = sl.AdditiveClassifier(**SMALL).fit(X, Y)
    assert model.multi_class_ == APART
    assert "over half of the budget" in model.certificate_.reason


@pytest.mark.parametrize("kind", [np.asarray, np.float32, sparse.csr_matrix])
def test_every_kind_of_rows_takes_the_same_way(kind):
    rows = kind(X * (X < 0.5))
    model = sl.AdditiveClassifier(**SMALL).fit(rows, Y)
    assert model.multi_class_ == JOINT
    asked = sl.AdditiveClassifier(multi_class=JOINT, **SMALL).fit(rows, Y)
    np.testing.assert_array_equal(model.coef_, asked.coef_)
    hinge = sl.AdditiveClassifier("hinge", **SMALL).fit(rows, Y)
    assert "loss='hinge' is of one class" in hinge.certificate_.reason


def test_rows_in_many_chunks_take_the_same_way():
    model = sl.AdditiveClassifier(**SMALL).fit(as_dataset(X, Y, rows=40))
    assert model.multi_class_ == JOINT


def test_streams_and_choices_of_C_are_of_one_class_at_a_time():
    model = sl.AdditiveClassifier(**SMALL).fit(X, Y)
    model.partial_fit(X, Y, classes=[0, 1, 2])  # begins anew
    assert model.multi_class_ == APART
    asked = sl.AdditiveClassifier(multi_class=APART, **SMALL).partial_fit(X, Y, classes=[0, 1, 2])
    np.testing.assert_array_equal(model.coef_, asked.coef_)
    for loss, interactions in (("log_loss", 0), ("log_loss", 1), ("hinge", 0)):
        chosen = sl.AdditiveClassifierCV(
            loss, Cs=[0.1, 1.0], n_bases=4, cv=2, interactions=interactions, tol=1e-2
        ).fit(X, Y)
        assert chosen.multi_class_ == APART
        assert chosen.predict(X).shape == Y.shape


def test_a_warm_start_goes_on_with_the_same_way():
    model = sl.AdditiveClassifier(warm_start=True, **SMALL).fit(X, Y)
    before = model.n_passes_
    model.fit(X, Y)
    assert model.multi_class_ == JOINT
    assert model.n_passes_ <= before


def test_models_that_are_merged_are_of_one_class_at_a_time():
    first = sl.AdditiveClassifier(C=1.0, covariance=True, warm_start=True, n_bases=5).fit(X, Y)
    other = sl.AdditiveClassifier(C=1.0, covariance=True, warm_start=True, n_bases=5)
    vars(other).update(vars(first))
    merged = first.merge(other.fit(X[::2], Y[::2]))
    assert merged.multi_class_ == APART
    edited = sl.AdditiveClassifier(**SMALL).fit(X, Y).edit(0, [0.1, 0.9], np.zeros((2, 3)))
    assert edited.multi_class_ == JOINT


@pytest.mark.parametrize("way", [JOINT, APART])
def test_the_way_is_saved_and_older_files_have_the_one_they_asked_for(way, tmp_path, monkeypatch):
    path = tmp_path / "model.slm"
    model = sl.AdditiveClassifier(multi_class=way, **SMALL).fit(X, Y)
    sl.save(model, path)
    np.testing.assert_array_equal(sl.load(path).predict_proba(X), model.predict_proba(X))
    of_now = sl.AdditiveClassifier._state
    monkeypatch.setattr(
        sl.AdditiveClassifier,
        "_state",
        lambda self: {k: v for k, v in of_now(self).items() if k != "multi_class"},
    )
    sl.save(model, path)
    older = sl.load(path)
    assert older.multi_class_ == way
    np.testing.assert_array_equal(older.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(("name", "way"), [("classifier", APART), ("multinomial", JOINT)])
def test_stored_models_have_the_way_in_which_they_were_fitted(name, way):
    model = sl.load(STORED / f"additive-{name}.slm")
    assert len(model.classes_) == 3
    assert model.multi_class_ == way
    assert model._asks_joint == (way == JOINT)


def test_a_way_that_no_model_has_is_refused(tmp_path, monkeypatch):
    model = sl.AdditiveClassifier("hinge", **SMALL).fit(X, Y)
    for wrong in ("none", JOINT):
        model.multi_class_ = wrong
        sl.save(model, tmp_path / "model.slm")
        with pytest.raises(ValueError, match="the way of 3 classes is"):
            sl.load(tmp_path / "model.slm")
