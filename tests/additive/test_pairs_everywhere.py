"""Pairs beside every parameter, and in every verb: each works, or is refused by name."""

from __future__ import annotations

import inspect

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import streamlearn as sl
from streamlearn.numeric.losses import LOSSES, make_loss

N, PAIRS = 300, [("a", "b"), ("word", "few")]
WORKS = None


def rows():
    """Numbers of which one has missing values, one of few values, and one of words."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.random(N),
            "b": rng.normal(size=N),
            "few": rng.integers(0, 3, N).astype(float),
            "word": rng.choice(["x", "y", "z"], N),
        }
    )
    f = np.sin(6 * X["a"]) + 2 * (X["a"] - 0.5) * X["b"] + (X["word"] == "y") * X["few"]
    X.loc[rng.random(N) < 0.05, "b"] = np.nan
    return X, f.fillna(0.3).to_numpy() + 0.1 * rng.normal(size=N)


X, F = rows()
NUMBERS = X[["a", "few"]].to_numpy()

TARGETS = {
    "class": F > 0.5,
    "number": F,
    "count": np.round(np.exp(F / 2)),
    "amount": np.exp(F / 2),
    "total": np.exp(F / 2) * (F > 0),
}


def model_and_target(loss="log_loss", **parameters):
    """An estimator of the loss, and a target that it takes."""
    target = make_loss(loss).target.name
    kind = sl.AdditiveClassifier if target == "class" else sl.AdditiveRegressor
    given = {"n_bases": 6, "tol": 1e-3, "interactions": PAIRS} | parameters
    return kind(loss, **given), TARGETS[target]


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_loss_serves_pairs_with_all_its_solvers(loss):
    from streamlearn.additive.costs.solver_choice import solvers_of

    for solver in ("auto", *solvers_of(make_loss(loss))):
        tol = 0.5 if solver == "pegasos" else 1e-3
        model, y = model_and_target(loss, solver=solver, tol=tol, C=0.05, max_passes=200)
        model.fit(X, y)
        assert model.certificate_.converged, (solver, model.certificate_)
        assert len(model.pair_tables_) == 2
        for pair in model.pair_tables_:
            mass = pair.density * pair.table
            for axis in (0, 1):
                np.testing.assert_allclose(mass.sum(axis=axis), 0.0, atol=1e-10)


OPTIONS = {
    "loss": [],
    "interactions": [],
    "power": [],
    "dispersion": [],
    "quantile": [],
    "epsilon": [],
    "solver": [],
    "C": [(0.1, WORKS)],
    "basis": [("cosine", "basis='cosine'; use basis='bspline'")],
    "n_bases": [(2, WORKS), (40, WORKS)],
    "degree": [(2, "degree=2; use degree=1"), (3, "degree=3; use degree=1")],
    "penalty_order": [(0, WORKS), (1, WORKS), (2, WORKS)],
    "penalty_scale": [("paper", WORKS), ("integral", WORKS)],
    "knots": [("uniform", WORKS), ("quantile", WORKS)],
    "missing": [("level", WORKS), ("error", "missing")],
    "max_levels": [(20, WORKS), (2, r"'word' is encoded as \['word=mean', 'word=count'\]")],
    "encoding": [
        ({"word": "levels"}, WORKS),
        ({"word": "target"}, "there is no column 'word' .*, name one or choose encoding="),
    ],
    "multi_class": [("ovr", WORKS), ("multinomial", WORKS)],
    "class_weight": [("balanced", WORKS), ({True: 3.0}, WORKS)],
    "intercept_scaling": [(2.0, WORKS)],
    "tol": [(1e-8, WORKS)],
    "max_passes": [(3, WORKS), (2, "max_passes=3 or more")],
    "early_stopping": [(True, WORKS)],
    "warm_start": [(True, "use warm_start=False")],
    "smoothness": [("reml", "smoothness='reml'"), ("gcv", "smoothness='gcv'")],
    "select": [(True, "select=True; use select=False")],
    "covariance": [(True, WORKS)],
    "monotone": [({"a": 1}, "use monotone=None")],
    "convex": [({"a": 1}, "use convex=None")],
    "calibration": [("sigmoid", WORKS), ("isotonic", WORKS)],
    "random_state": [(1, WORKS)],
    "offset": [("few", WORKS), ("a", "holds the offset or exposure")],
    "exposure": [("few", WORKS), ("a", "holds the offset or exposure")],
}
"""Parameter -> values beside `interactions`, and what refuses them.  Those without are walked by
the test of losses and solvers, or are the subject of all of these tests."""


def test_every_parameter_is_tried():
    kinds = sl.AdditiveClassifier, sl.AdditiveRegressor
    assert {name for kind in kinds for name in kind().get_params()} == set(OPTIONS)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [(name, value, words) for name, cells in OPTIONS.items() for value, words in cells],
)
def test_every_parameter_works_beside_pairs_or_is_refused(name, value, words):
    loss = "poisson" if name == "exposure" else "squared_error" if name == "offset" else "log_loss"
    parameters, more, data = {name: value}, {}, X
    if name == "exposure":
        data = X.assign(few=X["few"] + 1)
    if name in ("exposure", "offset"):
        parameters["interactions"] = [("a", "word")]
    if name == "select":
        parameters["smoothness"] = None
    if name == "early_stopping":
        more["validation"] = 0.2
    model, y = model_and_target(loss, **parameters)
    if name == "calibration":
        more["validation"] = 0.3
    if words is not WORKS:
        with pytest.raises(ValueError, match=words):
            model.fit(data, y)
        return
    model.fit(data, y, **more)
    total = model.explain(data).sum(axis=1) + model.intercept_[0]
    is_class = hasattr(model, "classes_")
    decision = model.decision_function(data) if is_class else model.predict(data)
    if name == "exposure":
        total = data["few"] * np.exp(total - np.log(data["few"]))
    np.testing.assert_allclose(decision, total, rtol=1e-7, atol=1e-7)


@pytest.fixture(scope="module")
def fitted():
    return model_and_target("log_loss")[0].fit(X, F > 0.5)


@pytest.fixture(scope="module")
def regressor():
    return model_and_target("squared_error")[0].fit(X, F)


@pytest.fixture(scope="module")
def of_numbers():
    return sl.AdditiveClassifier(n_bases=6, interactions=[(0, 1)]).fit(NUMBERS, F > 0.5)


VERBS = {
    "fit": lambda m, _: m.fit(X, F > 0.5),
    "partial_fit": "use fit, or interactions=0",
    "predict": lambda m, _: m.predict(X),
    "predict_proba": lambda m, _: m.predict_proba(X),
    "predict_log_proba": lambda m, _: m.predict_log_proba(X),
    "decision_function": lambda m, _: m.decision_function(X),
    "explain": lambda m, _: m.explain(X),
    "predict_to": lambda m, path: m.predict_to(X, path / "out.parquet", what="explanation"),
    "score": lambda m, _: m.score(X, F > 0.5),
    "report": lambda m, path: m.report(X, F > 0.5, output=path / "report.html"),
    "shape_function": lambda m, _: m.shape_function("a", [0.1, 0.2]),
    "edit": lambda m, _: m.edit(PAIRS[0], [X[PAIRS[0][0]][:1], X[PAIRS[0][1]][:1]], 1.0),
    "merge": "has 2 interactions, from which each fit took what is of single columns",
    "summary_table": "needs the covariance",
    "predict_interval": "needs the covariance",
    "get_params": lambda m, _: m.get_params(),
    "set_params": lambda m, _: m.set_params(C=m.C),
    "get_metadata_routing": lambda m, _: m.get_metadata_routing(),
    "set_callbacks": lambda m, _: m.set_callbacks(),
}
"""Public method -> how it is called on a model with pairs, or the words that refuse it."""


def test_every_method_has_a_cell():
    found = set()
    for kind in (sl.AdditiveClassifier, sl.AdditiveRegressor):
        names = [name for name in dir(kind) if not name.startswith("_")]
        found |= {n for n in names if inspect.isfunction(inspect.getattr_static(kind, n))}
    assert found - set(VERBS) == set()


@pytest.mark.parametrize("name", VERBS)
def test_every_method_works_or_is_refused(name, regressor, tmp_path):
    model = model_and_target("log_loss")[0].fit(X, F > 0.5)
    call = VERBS[name]
    if not isinstance(call, str):
        call(model if hasattr(model, name) else regressor, tmp_path)
    elif name == "partial_fit":
        with pytest.raises(ValueError, match=call):
            sl.AdditiveClassifier("hinge", interactions=[(0, 1)]).partial_fit(
                NUMBERS, F > 0.5, classes=[False, True]
            )
    elif name == "merge":
        with pytest.raises(ValueError, match=call):
            model.merge(model)
    else:
        with pytest.raises(AttributeError, match=call):
            getattr(regressor, name)(*[X][: name != "summary_table"])


ATTRIBUTES = {
    "term_importance_errors_": "needs the covariance",
    "smoothing_": "needs the covariance",
    "line_smoothing_": "needs the covariance",
    "effective_dof_": "needs the covariance",
    "scale_": "needs the covariance",
}


def test_attributes_say_their_terms(fitted):
    for name, words in ATTRIBUTES.items():
        with pytest.raises(AttributeError, match=words):
            getattr(fitted, name)
    assert fitted.term_names_ == ["a", "b", "few", "word", "a & b", "few & word"]
    assert fitted.term_importances_.shape == (6,)
    assert len(fitted.knots_) == len(fitted.densities_) == 4


def test_rows_of_every_kind_are_predicted_alike(of_numbers, tmp_path):
    """A model of pairs is fitted to dense rows, and predicts all that another one predicts."""
    expected = of_numbers.decision_function(NUMBERS)
    explained = of_numbers.explain(NUMBERS)
    assert explained.shape == (N, 3)
    stored = pd.DataFrame(NUMBERS, columns=["x0", "x1"])
    stored.to_parquet(tmp_path / "rows.parquet")
    for other in (
        csr_matrix(NUMBERS),
        np.asfortranarray(NUMBERS),
        sl.open_dataset(tmp_path / "rows.parquet"),
    ):
        np.testing.assert_allclose(of_numbers.decision_function(other), expected, atol=1e-12)
        np.testing.assert_allclose(of_numbers.explain(other), explained, atol=1e-12)
    lazy = of_numbers.decision_function(da.from_array(NUMBERS, chunks=(100, 2)))
    np.testing.assert_allclose(lazy.compute(), expected, atol=1e-12)
    single = of_numbers.decision_function(NUMBERS.astype(np.float32))
    np.testing.assert_allclose(single, expected, atol=1e-4)


def test_a_dask_frame_is_fitted_as_its_rows(fitted):
    frame = dd.from_pandas(X.assign(y=F > 0.5), npartitions=3)
    model = model_and_target("log_loss")[0].fit(frame.drop(columns="y"), frame["y"])
    np.testing.assert_allclose(model.decision_function(X), fitted.decision_function(X), atol=1e-2)


def test_a_warm_start_does_not_go_on_from_pairs():
    model = model_and_target("log_loss", solver="newton")[0].fit(X, F > 0.5)
    model.set_params(interactions=0, warm_start=True)
    with pytest.raises(ValueError, match="goes on from a fit without interactions"):
        model.fit(X, F > 0.5)


def test_a_stream_begins_anew_after_a_fit_with_pairs():
    model = sl.AdditiveClassifier("hinge", n_bases=5, interactions=[(0, 1)], tol=0.1)
    model.fit(NUMBERS, F > 0.5)
    model.set_params(interactions=0)
    model.partial_fit(NUMBERS, F > 0.5, classes=[False, True])
    assert model.bases_.pairs is None
    assert model.pair_tables_ == []
    assert model.explain(NUMBERS).shape == (N, 2)


def test_embeddings_have_no_pairs_to_ignore():
    assert "interactions" not in sl.SplineEmbedding().get_params()


@pytest.mark.parametrize(
    ("loss", "cv"), [("log_loss", 3), ("squared_error", 3), ("squared_error", "gcv")]
)
def test_the_choice_with_pairs_is_that_of_its_splits(loss, cv):
    """The last fit is the plain estimator's, and the scores are those of `cross_validate`."""
    plain, y = model_and_target(loss, tol=1e-8)
    kind = sl.AdditiveClassifierCV if loss == "log_loss" else sl.AdditiveRegressorCV
    Cs = [0.01, 1.0]
    model = kind(loss, Cs=Cs, n_bases=6, cv=cv, interactions=PAIRS, tol=1e-8).fit(X, y)
    plain.set_params(C=model.C_).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(
        model.pair_tables_[0].density, plain.pair_tables_[0].density, atol=1e-15
    )
    np.testing.assert_allclose(model.explain(X), plain.explain(X), atol=1e-5)
    if cv == 3:
        data = sl.open_dataset(X.assign(y=y), target="y")
        metric = "neg_log_loss" if loss == "log_loss" else "neg_mean_squared_error"
        found = sl.cross_validate(plain, data, 3, {"C": Cs}, scoring=metric)
        # knots come from all rows here, and from each split's own rows there
        np.testing.assert_allclose(model.cv_results_["mean_test_score"], found.mean, rtol=0.1)


def test_splits_and_compression_take_models_with_pairs(fitted):
    data = sl.open_dataset(X.assign(y=F > 0.5), target="y")
    found = sl.cross_validate(fitted, data, cv=2)
    assert np.isfinite(found.scores).all()
    numbers = sl.AdditiveClassifier(n_bases=6, interactions=[(0, 1)]).fit(NUMBERS, F > 0.5)
    small = sl.compress(numbers, NUMBERS, n_prototypes=3, n_passes=2, tol=0.1)
    assert small.predict(NUMBERS).shape == (N,)


def test_a_resumed_fit_has_the_bits_of_one_that_was_not_stopped(tmp_path, monkeypatch):
    from streamlearn.engine.run import Run

    X.assign(y=F > 0.5).to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    data = sl.open_dataset(tmp_path / "rows.parquet", target="y")
    whole = model_and_target("log_loss")[0].fit(data)
    run_fold = Run.fold

    def stops(run, fold, source=None, *, name):
        if name == "pairs":
            raise KeyboardInterrupt
        return run_fold(run, fold, source, name=name)

    monkeypatch.setattr(Run, "fold", stops)
    with pytest.raises(KeyboardInterrupt):
        model_and_target("log_loss")[0].fit(data, checkpoint=tmp_path / "kept")
    monkeypatch.undo()
    again = model_and_target("log_loss")[0].fit(data, checkpoint=tmp_path / "kept")
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    np.testing.assert_array_equal(again.pair_tables_[0].density, whole.pair_tables_[0].density)


def test_the_plan_counts_the_terms_of_pairs():
    data = sl.open_dataset(X.assign(y=F > 0.5), target="y")
    plain, paired = (
        sl.plan(model_and_target("log_loss", interactions=pairs)[0], data) for pairs in (0, PAIRS)
    )
    assert "pairs" in dict(paired.terms)
    assert "pairs" not in dict(plain.terms)
    assert paired.peak_bytes > plain.peak_bytes
    assert paired.passes == (plain.passes[0] + 1, plain.passes[1])


@pytest.fixture
def figures():
    pytest.importorskip("matplotlib")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_heat_maps_are_the_tables_with_the_rows_beside_them(fitted, figures):
    display = sl.AdditiveDisplay.from_estimator(fitted)
    order = np.argsort(-fitted.term_importances_[4:])
    assert [pair.title for pair in display.pairs] == [fitted.term_names_[4 + k] for k in order]
    assert len(display.axes_) == 4 + 2 * 2
    for i, pair in enumerate(display.pairs):
        own = fitted.pair_tables_[order[i]]
        table, density = (display.axes_[4 + 2 * i + k].images[0].get_array() for k in range(2))
        np.testing.assert_array_equal(table, own.table)
        np.testing.assert_array_equal(density, own.density)
        assert [len(names) for names in pair.labels] == list(own.table.shape)
    last = {pair.title: pair.labels[1][-1] for pair in display.pairs}
    assert last == {"a & b": "missing", "few & word": "other"}
    alone = sl.AdditiveDisplay.from_estimator(fitted, features=[("b", "a")])
    assert len(alone.axes_) == 2
    with pytest.raises(ValueError, match=r"is no pair of this model, which has \['a & b'"):
        sl.AdditiveDisplay.from_estimator(fitted, features=[("a", "few")])
    with pytest.raises(ValueError, match="1 pairs, which take 2: two each"):
        alone.plot(ax=alone.axes_[:1])


def test_heat_maps_of_classes_are_those_asked_for(figures):
    model = model_and_target("log_loss")[0].fit(X, np.digitize(F, [0.0, 1.0]))
    default = sl.AdditiveDisplay.from_estimator(model, features=["a", ("a", "b")])
    table = model.pair_tables_[0].table
    widest = int(np.ptp(table, axis=(0, 1)).argmax())
    assert [pair.of_class for pair in default.pairs] == [str(widest)]
    display = sl.AdditiveDisplay.from_estimator(model, features=[("a", "b")], classes=[2, 0])
    assert [pair.of_class for pair in display.pairs] == ["2", "0"]
    np.testing.assert_array_equal(display.axes_[2].images[0].get_array(), table[:, :, 0])


def test_the_report_has_the_heat_maps(fitted, figures):
    page = fitted.report()
    for words in ("a &amp; b", "few &amp; word: share of the rows", "both do together"):
        assert words in page
    plain = model_and_target("log_loss", interactions=0)[0].fit(X, F > 0.5)
    assert "share of the rows" not in plain.report()


def test_a_pair_of_a_constant_column_has_no_term(figures):
    data = X.assign(flat=1.0)
    model = model_and_target("log_loss", interactions=[("a", "flat"), ("a", "b")])[0]
    for y in (F > 0.5, np.digitize(F, [0.0, 1.0])):
        model.fit(data, y)
        assert not model.explain(data)[:, 5].any()
        assert model.term_importances_[5] == 0.0
        assert model.pair_tables_[0].density.size == 0
        assert len(sl.AdditiveDisplay.from_estimator(model).pairs) == 1
        assert "a &amp; flat: share" not in model.report()
        assert not np.any(model.shape_function(("a", "flat"), [[0.1], [1.0]]))
        with pytest.raises(ValueError, match=r"columns \['a & flat'\] were constant in training"):
            sl.AdditiveDisplay.from_estimator(model, features=[("a", "flat")])


def test_the_values_of_a_pair_are_what_explain_says(fitted, regressor):
    several = model_and_target("log_loss")[0].fit(X, np.digitize(F, [0.0, 1.0]))
    for model in (fitted, regressor, several):
        explained = model.explain(X)
        for i, (one, other) in enumerate(PAIRS):
            for names in ((one, other), (other, one)):
                found = model.shape_function(names, [X[name] for name in names])
                np.testing.assert_allclose(found, explained[:, 4 + i], atol=1e-12)
        for pair, names in zip(model.pair_tables_, (("a", "b"), (2, 3)), strict=True):
            if names[0] == "a":  # at the nodes the term is its table
                at = np.meshgrid(*pair.nodes, indexing="ij")
                found = model.shape_function(names, [x.ravel() for x in at])
                flat = pair.table.reshape(found.shape)
                np.testing.assert_allclose(found, flat, atol=1e-9)
    with pytest.raises(AttributeError, match="the standard deviation needs the cov"):
        fitted.shape_function(("a", "b"), [[0.1], [0.2]], return_std=True)
    with pytest.raises(ValueError, match="as many values of one column as of the other"):
        fitted.shape_function(("a", "b"), [[0.1], [0.2, 0.3]])
