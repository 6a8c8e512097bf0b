"""What `interactions="auto"` decides: pairs where they can be, else the bits of none, and why."""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import streamlearn as sl
from streamlearn.additive.costs import pair_choice
from streamlearn.additive.costs.sizes import size_of
from streamlearn.numeric.losses import LOSSES, make_loss

N, TAKES = 4_500, ""
SMALL = {"n_bases": 6, "tol": 1e-3, "max_passes": 40}


def rows():
    """Numbers, one of few values, and words; the first two act together, and so do the others."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.random(N),
            "b": rng.random(N),
            "few": rng.integers(0, 3, N).astype(float),
            "word": rng.choice(["x", "y", "z"], N),
        }
    )
    f = np.sin(6 * X["a"]) + 8 * (X["a"] - 0.5) * (X["b"] - 0.5) + (X["word"] == "y") * X["few"]
    return X, f.to_numpy() + 0.1 * rng.normal(size=N)


X, F = rows()
Y = F > 0.5
NUMBERS = X[["a", "b", "few"]].to_numpy()
TARGETS = {
    "class": Y,
    "number": F,
    "count": np.round(np.exp(F / 2)),
    "amount": np.exp(F / 2),
    "total": np.exp(F / 2) * (F > 0),
}


def fitted(interactions, loss="log_loss", data=X, y=None, more=None, **parameters):
    """A fitted estimator of the loss."""
    target = make_loss(loss).target.name
    kind = sl.AdditiveClassifier if target == "class" else sl.AdditiveRegressor
    model = kind(loss, **{**SMALL, "interactions": interactions, **parameters})
    return model.fit(data, TARGETS[target] if y is None else y, **(more or {}))


def said(words):
    return pair_choice.no_pairs(words)


def assert_gives_way(auto, none, words):
    """The fit is that of none, bit for bit and read for read, and says why it has no pairs."""
    np.testing.assert_array_equal(auto.coef_, none.coef_)
    np.testing.assert_array_equal(auto.intercept_, none.intercept_)
    assert auto.n_passes_ == none.n_passes_
    assert auto.certificate_.solver == none.certificate_.solver
    assert auto.pair_tables_ == []
    assert said(words) in auto.certificate_.reason
    assert "no pairs" not in none.certificate_.reason


OPTIONS = {
    "loss": [],
    "interactions": [],
    "power": [],
    "dispersion": [],
    "quantile": [],
    "epsilon": [],
    "solver": [
        ("auto", TAKES),
        ("newton", TAKES),
        ("lbfgs", TAKES),
        ("dual-cd", "visits of single rows"),
        ("pegasos", "visits of single rows"),
    ],
    "C": [(None, TAKES), (0.1, TAKES)],
    "basis": [("cosine", "they do not go with basis='cosine'")],
    "n_bases": [(2, TAKES), ("auto", TAKES)],
    "degree": [(2, "they do not go with degree=2"), (3, "they do not go with degree=3")],
    "penalty_order": [(0, TAKES), (2, TAKES)],
    "penalty_scale": [("paper", TAKES)],
    "knots": [("uniform", TAKES)],
    "missing": [("error", TAKES)],
    "max_levels": [(2, TAKES)],
    "encoding": [(None, TAKES), ({}, TAKES)],
    "multi_class": [("ovr", TAKES), ("multinomial", TAKES)],
    "class_weight": [("balanced", TAKES)],
    "intercept_scaling": [(2.0, TAKES)],
    "tol": [(1e-8, TAKES)],
    "max_passes": [(4, TAKES), (3, "they do not go with max_passes=3")],
    "early_stopping": [(True, TAKES)],
    "warm_start": [(True, "they do not go with warm_start=True")],
    "smoothness": [
        ("reml", "they do not go with smoothness='reml'"),
        ("gcv", "they do not go with smoothness='gcv'"),
    ],
    "select": [(True, "they do not go with smoothness='reml'")],
    "covariance": [(True, TAKES)],
    "monotone": [({"a": 1}, "they do not go with monotone={'a': 1}")],
    "convex": [({"a": 1}, "they do not go with convex={'a': 1}")],
    "calibration": [("sigmoid", TAKES)],
    "random_state": [(1, TAKES)],
    "offset": [("few", TAKES)],
    "exposure": [("few", TAKES)],
}
"""Parameter -> values, and for each what "auto" says where it has no pairs.  Losses and their
parameters have a test of their own."""
CELLS = [
    pytest.param(name, value, words, id=f"{name}={value}")
    for name, cells in OPTIONS.items()
    for value, words in cells
]


def test_every_parameter_is_walked():
    kinds = sl.AdditiveClassifier, sl.AdditiveRegressor
    assert {name for kind in kinds for name in kind().get_params()} == set(OPTIONS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "value", "words"), CELLS)
def test_every_parameter_has_pairs_or_makes_auto_give_way(name, value, words):
    given, more, data = {name: value}, {}, X
    loss = {"exposure": "poisson", "offset": "squared_error"}.get(name, "log_loss")
    if name == "exposure":
        data = X.assign(few=X["few"] + 1)
    if name == "select":
        given["smoothness"] = "reml"
    if name == "early_stopping":
        more["validation"] = 0.2
    auto = fitted("auto", loss, data, more=more, **given)
    plan = sl.plan(auto, data)
    if not words:
        assert "a & b" in auto.term_names_
        assert "no pairs" not in auto.certificate_.reason
        assert plan.decided == ""
        return
    assert_gives_way(auto, fitted(0, loss, data, more=more, **given), words)
    assert said(words) in plan.decided
    assert said(words) in str(plan)
    for asked in (3, [("a", "b")]):  # what was asked for is refused, as before, or kept
        if "they do not go with" in words and name not in ("max_passes",):
            with pytest.raises(ValueError, match="does not go with"):
                fitted(asked, loss, data, more=more, **given)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_smooth_loss_has_pairs(loss):
    auto = fitted("auto", loss, C=0.1)
    if make_loss(loss).has("curvature"):
        assert "a & b" in auto.term_names_
    else:
        words = f"loss={loss!r} is not smooth"
        assert_gives_way(auto, fitted(0, loss, C=0.1), words)
        assert said(words) in sl.plan(auto, X).decided


def test_tables_that_have_no_pairs_to_find():
    few = "4,199 rows are fewer than 4,200"
    assert_gives_way(
        fitted("auto", data=X[:4199], y=Y[:4199]), fitted(0, data=X[:4199], y=Y[:4199]), few
    )
    one = X[["a"]]
    assert_gives_way(fitted("auto", data=one), fitted(0, data=one), "there is one column")
    two = X[["a", "few"]].assign(few=X["few"] + 1)
    both = (fitted(k, "poisson", two, exposure="few") for k in ("auto", 0))
    assert_gives_way(*both, "there is one column")
    sparse = csr_matrix(NUMBERS)
    words = "they do not go with sparse rows"
    assert_gives_way(fitted("auto", data=sparse), fitted(0, data=sparse), words)


def test_wide_tables_give_way():
    from additive_kit import as_dataset

    for p, n, words in ((500, 100_000, "to take"), (500, 5_000, "coefficients of curves are over")):
        data = as_dataset(np.broadcast_to(np.float32(0), (n, p)), np.zeros(n))
        n_bases = 10 if "take" in words else 20
        more = {} if "take" in words else {"tol": 1e-6}  # dual-cd was not measured for it
        plan = sl.plan(sl.AdditiveClassifier(interactions="auto", n_bases=n_bases, **more), data)
        none = sl.plan(sl.AdditiveClassifier(interactions=0, n_bases=n_bases, **more), data)
        assert words in plan.decided
        assert (plan.terms, plan.passes) == (none.terms, none.passes)


TWELVE = np.random.default_rng(1).random((N, 12))


@pytest.mark.parametrize("budget", ["20MiB", "28MiB", "36MiB", "64MiB", "512MiB"])
def test_a_budget_that_holds_no_pairs_makes_auto_give_way(budget):
    with sl.config_context(memory_budget=budget):
        auto, none = (fitted(k, data=TWELVE, n_bases=12) for k in ("auto", 0))
        plan, terms = sl.plan(auto, TWELVE), sl.plan(none, TWELVE).terms
    if budget in ("20MiB", "28MiB"):
        assert_gives_way(auto, none, "a budget of")
        assert plan.terms == terms
    else:
        assert plan.decided == ""
        assert "screening" in dict(auto.plan_.terms)


@pytest.mark.parametrize(
    ("budget", "words"), [("40MiB", "a budget of"), ("64MiB", "they would part the classes")]
)
def test_classes_that_only_the_summary_counts_make_auto_give_way(budget, words):
    """Of so many classes the budget holds curves, but no pairs; the sample is that of none."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 100, N)
    with sl.config_context(memory_budget=budget):
        auto, none = (fitted(k, data=TWELVE, y=y, n_bases=12, C=1.0, tol=0.1) for k in ("auto", 0))
        assert sl.plan(auto, TWELVE).decided == ""
    assert_gives_way(auto, none, words)


@pytest.mark.parametrize("loss", ["log_loss", "squared_error", "poisson"])
def test_a_screening_that_finds_none_leaves_the_smoothness_to_all_rows(loss):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.random((6000, 4)), columns=list("abcd"))
    f = np.sin(6 * frame["a"]) + frame["b"]
    y = {
        "log_loss": rng.random(6000) < 1 / (1 + np.exp(-2 * f)),
        "squared_error": f + rng.normal(size=6000),
        "poisson": rng.poisson(np.exp(f)),
    }[loss]
    auto, none = (fitted(k, loss, frame, y, n_bases=12, tol=1e-6) for k in ("auto", 0))
    assert said(pair_choice.NONE_FOUND) in auto.certificate_.reason
    assert auto.n_passes_ <= none.n_passes_ + 2  # the screening, and a step from the sample's fit
    assert auto.n_passes_ in range(auto.plan_.passes[0], auto.plan_.passes[1] + 1)
    if loss == "squared_error":  # the read of all rows is all that decides
        np.testing.assert_array_equal(auto.coef_, none.coef_)
    # else the same problem from another start
    np.testing.assert_allclose(auto.effective_dof_, none.effective_dof_, rtol=0.1, atol=0.1)
    assert len(auto.summary_table()) == len(none.summary_table())
    kept = fitted("auto", loss, frame, y, n_bases=12, C=1.0)
    assert said(pair_choice.NONE_FOUND) in kept.certificate_.reason


# Verbs.


@pytest.fixture(scope="module")
def with_pairs():
    return fitted("auto")


@pytest.fixture(scope="module")
def of_numbers():
    return sl.AdditiveClassifier(**SMALL, interactions="auto").fit(NUMBERS, Y)


def test_it_is_the_fit_of_ten_pairs(with_pairs):
    ten = fitted(10)
    np.testing.assert_array_equal(with_pairs.coef_, ten.coef_)
    assert with_pairs.n_passes_ == ten.n_passes_
    assert with_pairs.get_params()["interactions"] == "auto"


def test_partial_fit_gives_way_and_says_so():
    auto, none = (sl.AdditiveClassifier("hinge", n_bases=5, interactions=k) for k in ("auto", 0))
    for model in (auto, none):
        model.partial_fit(NUMBERS, Y, classes=[False, True])
    np.testing.assert_array_equal(auto.coef_, none.coef_)
    assert said(pair_choice.ROWS_ONCE) in auto.certificate_.reason
    with pytest.raises(ValueError, match="interactions=2 need one more read"):
        auto.set_params(interactions=2).partial_fit(NUMBERS, Y)


@pytest.mark.parametrize("loss", ["log_loss", "squared_error", "hinge"])
def test_a_choice_by_splits_gives_way_and_says_so(loss):
    is_class = make_loss(loss).target.name == "class"
    kind = sl.AdditiveClassifierCV if is_class else sl.AdditiveRegressorCV
    y = Y if is_class else F
    made = {
        k: kind(loss, Cs=[0.1, 1.0], n_bases=5, cv=2, tol=1e-2, interactions=k).fit(X, y)
        for k in ("auto", 0)
    }
    auto, none = made["auto"], made[0]
    assert_gives_way(auto, none, pair_choice.SPLIT_PAIRS)
    np.testing.assert_array_equal(
        auto.cv_results_["mean_test_score"], none.cv_results_["mean_test_score"]
    )
    assert said(pair_choice.SPLIT_PAIRS) in sl.plan(auto, X).decided


def test_cross_validate_finds_pairs_in_each_split():
    data = sl.open_dataset(X.assign(y=F), target="y")
    scores = [
        sl.cross_validate(
            sl.AdditiveRegressor(n_bases=8, interactions=k), data, 2, scoring="r2"
        ).scores
        for k in ("auto", 10)
    ]
    np.testing.assert_array_equal(*scores)


def test_rows_of_every_kind_decide_alike(of_numbers, tmp_path):
    frame = pd.DataFrame(NUMBERS, columns=["x0", "x1", "x2"])
    frame.assign(y=Y).to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    stored = sl.open_dataset(tmp_path / "rows.parquet", target="y")
    model = sl.AdditiveClassifier(**SMALL, interactions="auto").fit(stored)
    assert model.bases_.pair_columns == of_numbers.bases_.pair_columns
    lazy = dd.from_pandas(frame.assign(y=Y), npartitions=3)
    model = sl.AdditiveClassifier(**SMALL, interactions="auto")
    model.fit(lazy.drop(columns="y"), lazy["y"])
    assert model.bases_.pair_columns == of_numbers.bases_.pair_columns


def test_every_answer_is_given(with_pairs, of_numbers, tmp_path):
    total = with_pairs.explain(X).sum(axis=1) + with_pairs.intercept_[0]
    np.testing.assert_allclose(with_pairs.decision_function(X), total, atol=1e-9)
    assert with_pairs.predict_proba(X).shape == (N, 2)
    with_pairs.predict_to(X, tmp_path / "out.parquet", what="explanation")
    assert "a &amp; b" in with_pairs.report()
    sl.save(with_pairs, tmp_path / "model")
    again = sl.load(tmp_path / "model")
    assert again.interactions == "auto"
    np.testing.assert_array_equal(again.decision_function(X), with_pairs.decision_function(X))
    small = sl.compress(of_numbers, NUMBERS, n_prototypes=3, n_passes=2, tol=0.1)
    assert small.predict(NUMBERS).shape == (N,)


@pytest.mark.parametrize("name", ["smoothing_", "effective_dof_", "summary_table"])
def test_what_pairs_do_not_have_is_there_where_auto_gives_way(with_pairs, name):
    with pytest.raises(AttributeError, match="with smoothness='reml' or 'gcv', or with covariance"):
        getattr(with_pairs, name)()
    assert hasattr(fitted("auto", smoothness="reml"), name)


def test_models_of_pairs_are_not_merged_and_not_gone_on_from(with_pairs):
    with pytest.raises(ValueError, match="interactions=0"):
        with_pairs.merge(with_pairs)
    model = fitted("auto", solver="newton").set_params(warm_start=True)
    with pytest.raises(ValueError, match="goes on from a fit without interactions"):
        model.fit(X, Y)


def test_a_warm_start_goes_on_from_a_fit_that_gave_way():
    model = fitted("auto", solver="newton", warm_start=True)
    again = model.fit(X, Y)
    assert again.pair_tables_ == []


def test_a_checkpoint_of_main_effects_goes_on_with_none_alone(tmp_path, monkeypatch):
    """Checkpoints written before pairs were the default do not say them: interactions=0 goes on."""
    X.assign(y=Y).to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    data = sl.open_dataset(tmp_path / "rows.parquet", target="y")
    model = sl.AdditiveClassifier(**SMALL, interactions=0)
    model.fit(data, checkpoint=tmp_path / "kept")
    with pytest.raises(sl.CheckpointError, match="interactions"):
        sl.AdditiveClassifier(**SMALL, interactions="auto").fit(data, checkpoint=tmp_path / "kept")
    again = sl.AdditiveClassifier(**SMALL, interactions=0).fit(data, checkpoint=tmp_path / "kept")
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_a_killed_fit_goes_on_with_its_bits(tmp_path, monkeypatch):
    from streamlearn.engine.run import Run

    X.assign(y=Y).to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    data = sl.open_dataset(tmp_path / "rows.parquet", target="y")
    whole = sl.AdditiveClassifier(**SMALL, interactions="auto").fit(data)
    run_fold = Run.fold

    def stops(run, fold, source=None, *, name):
        if name == "pairs":
            raise KeyboardInterrupt
        return run_fold(run, fold, source, name=name)

    monkeypatch.setattr(Run, "fold", stops)
    with pytest.raises(KeyboardInterrupt):
        sl.AdditiveClassifier(**SMALL, interactions="auto").fit(data, checkpoint=tmp_path / "kept")
    monkeypatch.undo()
    again = sl.AdditiveClassifier(**SMALL, interactions="auto")
    again.fit(data, checkpoint=tmp_path / "kept")
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    assert again.n_passes_ == whole.n_passes_


def test_the_decision_knows_no_rows_and_no_threads():
    """Sizes before the decision are those of curves alone, whoever asks."""
    data = sl.open_dataset(X.assign(y=Y), target="y")
    model = sl.AdditiveClassifier(**SMALL, interactions="auto")
    assert size_of(model, data).pair_dim == 0
    assert model._decided(data)[0]._size(data).pair_dim > 0
