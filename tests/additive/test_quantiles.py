"""Several quantiles from the reads of one: each is the fit of that quantile alone."""

import numpy as np
import oracles
import pytest
from additive_kit import as_dataset, table
from scipy import sparse
from sklearn.metrics import mean_pinball_loss

import streamlearn as sl
from streamlearn.additive.costs import sizes
from streamlearn.estimator.predicting import empty_answer

LEVELS = [0.1, 0.5, 0.8]
TIGHT = dict(n_bases=5, C=0.1, tol=1e-6, max_passes=3000)


def rows(n=240, seed=0):
    X, _ = table(n, seed)
    rng = np.random.default_rng(seed)
    return X, np.sin(6 * X[:, 0]) + (0.2 + X[:, 1]) * rng.standard_normal(n) + 5


def several(levels=LEVELS, **options):
    return sl.AdditiveRegressor("quantile", quantile=levels, **options)


@pytest.mark.parametrize("form", ["dense", "csr", "cosine", "parts"])
def test_each_is_the_optimum_of_its_quantile(form, monkeypatch):
    X, y = rows()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    data, options = X, dict(TIGHT)
    if form == "csr":
        data = sparse.csr_array(X)
    elif form == "cosine":
        options["basis"] = "cosine"
    elif form == "parts":
        monkeypatch.setattr(sizes, "holds_rows", lambda size: False)
        data = as_dataset(X, y, weight, rows=50)
    given = () if form == "parts" else (y, weight)
    model = several(**options).fit(data, *given)
    assert model.certificate_.converged
    assert model.coef_.shape == (3, model.bases_.dim)
    for k, level in enumerate(LEVELS):
        alone = several(level, **options).fit(data, *given)
        assert model.certificate_.primal[k] == pytest.approx(alone.certificate_.primal, rel=3e-6)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=0.02)


@pytest.mark.parametrize("basis", ["bspline", "trigonometric"])
def test_the_optimum_is_that_of_the_explicit_features(basis, monkeypatch):
    X, y = rows()
    spline = basis == "bspline"
    embedding = sl.SplineEmbedding(5) if spline else sl.FourierEmbedding(5, basis=basis)
    features = embedding.fit(X)
    model = several(**TIGHT, basis=basis).fit(X, y)
    for k, level in enumerate(LEVELS):
        monkeypatch.setattr(oracles, "QUANTILE", level)
        problem = oracles.linear_problem(features, X, y - y.mean(), "quantile", C=0.1)
        _, best = oracles.kinked_optimum(problem)
        assert model.certificate_.primal[k] == pytest.approx(best, rel=3e-6)
        assert model.certificate_.dual[k] <= best * (1 + 1e-9)


@pytest.mark.parametrize("solver", ["pegasos", "dual-cd"])
def test_reads_are_shared(solver):
    X, y = rows(3000)
    data = as_dataset(X, y, rows=300)
    options = dict(n_bases=5, C=0.02, tol=0.05, max_passes=300, solver=solver)
    model = several(**options).fit(data)
    alone = [several(level, **options).fit(data) for level in LEVELS]
    assert model.certificate_.converged
    assert model.n_passes_ <= max(one.n_passes_ for one in alone) + 2
    assert model.n_passes_ < sum(one.n_passes_ for one in alone) - 2
    for k, one in enumerate(alone):
        assert model.certificate_.primal[k] == pytest.approx(one.certificate_.primal, rel=0.06)
        assert model.certificate_.dual[k] <= one.certificate_.primal


def crossed():
    """A model of few rows whose curves cross far from them, with its rows."""
    rng = np.random.default_rng(3)
    X = rng.random((60, 2))
    y = X[:, 0] + 0.02 * rng.standard_normal(60)
    return several([0.45, 0.5, 0.55], n_bases=12, C=2.0, tol=1e-3, max_passes=1000).fit(X, y), X, y


def test_predictions_of_a_row_do_not_cross():
    model, X, y = crossed()
    own = model.explain(X).sum(axis=1) + model.intercept_
    found = model.predict(X)
    assert (np.diff(own, axis=1) < 0).any()  # else there is nothing to put in order
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_allclose(found, np.sort(own, axis=1), atol=1e-9)
    # the rearrangement is no farther from the targets than the curves
    losses = [
        np.mean([mean_pinball_loss(y, f[:, k], alpha=q) for k, q in enumerate(model.quantile)])
        for f in (found, own)
    ]
    assert losses[0] <= losses[1] + 1e-12
    assert model.score(X, y) == pytest.approx(-losses[0], rel=1e-10)


def test_so_many_targets_lie_below_each():
    X, y = rows(2000)
    model = several([0.1, 0.5, 0.9], n_bases=6, C=1.0).fit(X, y)
    below = (y[:, None] < model.predict(X)).mean(axis=0)
    np.testing.assert_allclose(below, [0.1, 0.5, 0.9], atol=0.02)


def test_answers_files_and_dask(tmp_path):
    import dask.array as da
    import pyarrow.parquet as pq

    X, y = rows()
    model = several(n_bases=5, tol=0.01).fit(X, y)
    expected = model.predict(X)
    assert expected.shape == (240, 3)
    assert empty_answer(model, "prediction").shape == (0, 3)
    np.testing.assert_array_equal(model.predict(as_dataset(X, y, rows=50)), expected)
    np.testing.assert_array_equal(model.predict(X[:1]), expected[:1])
    lazy = model.predict(da.from_array(X, chunks=(100, 5)))
    assert lazy.shape == (240, 3)
    np.testing.assert_array_equal(lazy.compute(), expected)
    sl.save(model, tmp_path / "m.slm")
    again = sl.load(tmp_path / "m.slm")
    np.testing.assert_array_equal(again.predict(X), expected)
    assert again.score(X, y) == model.score(X, y)
    model.predict_to(X, tmp_path / "out")
    written = pq.read_table(tmp_path / "out")
    assert written.column_names == ["prediction_0.1", "prediction_0.5", "prediction_0.8"]
    np.testing.assert_array_equal(written.to_pandas().to_numpy(), expected)
    model.predict_to(X[:10], tmp_path / "terms", what="explanation")
    assert "explanation_x0_0.5" in pq.read_table(tmp_path / "terms").column_names


def test_an_offset_is_added_to_each():
    X, y = rows()
    offset = np.random.default_rng(2).standard_normal(len(y))
    both = np.column_stack([X, offset])
    model = several(offset=5, **TIGHT).fit(both, y + offset)
    alone = several(**TIGHT).fit(X, y)
    np.testing.assert_allclose(
        model.predict(both), alone.predict(X) + offset[:, None], rtol=0, atol=0.02
    )
    terms = model.explain(both)
    np.testing.assert_allclose(terms[:, 5], np.repeat(offset[:, None], 3, axis=1), rtol=1e-6)


def test_a_stream_learns_all_of_them():
    X, y = rows(1000)
    model = several(n_bases=5, C=0.01, solver="pegasos")
    alone = several(0.5, n_bases=5, C=0.01, solver="pegasos")
    for part in np.array_split(np.arange(1000), 5):
        model.partial_fit(X[part], y[part], n_rows=1000)
        alone.partial_fit(X[part], y[part], n_rows=1000)
    np.testing.assert_allclose(model.coef_[1], alone.coef_[0], atol=1e-12)
    assert model.predict(X).shape == (1000, 3)


def test_pairs_and_early_stopping_go_with_them():
    X, y = rows(600)
    y = y + 4 * X[:, 0] * X[:, 1]
    options = dict(n_bases=5, C=0.1, tol=0.02, max_passes=60)
    model = several(interactions=1, **options).fit(X, y)
    assert model.term_names_[5:] == ["x0 & x1"]
    assert model.pair_tables_[0].by_output.shape[2] == 3
    stopped = several(early_stopping=True, **options).fit(X, y, validation=0.2)
    known = [record for record in stopped.history_ if "validation_loss" in record]
    losses = [record["validation_loss"] for record in known]
    assert losses
    assert np.isfinite(losses).all()


def test_the_plan_counts_each(monkeypatch):
    X, y = rows(3000)
    data = as_dataset(X, y, rows=300)
    monkeypatch.setattr(sizes, "holds_rows", lambda size: False)
    three, one = (sl.plan(several(q, n_bases=8, C=1.0), data) for q in (LEVELS, 0.5))
    assert three.disk_bytes == 3 * one.disk_bytes  # dual variables
    for k in range(2, 4):  # dual-cd, certificate
        held = [sum(term.total_bytes for term in plan.terms[k][1]) for plan in (three, one)]
        assert held[0] > held[1]


def test_pictures_have_a_curve_of_each(tmp_path):
    X, y = rows()
    model = several(n_bases=5, tol=0.01).fit(X, y)
    display = sl.AdditiveDisplay.from_estimator(model)
    assert list(display.classes) == LEVELS
    chosen = sl.AdditiveDisplay.from_estimator(model, classes=[0.8])
    assert chosen.curves[0].shape[1] == 1
    with pytest.raises(ValueError, match=r"classes=\[0.3\] are to be some of \[0.1, 0.5, 0.8\]"):
        sl.AdditiveDisplay.from_estimator(model, classes=[0.3])
    middle = sl.WaterfallDisplay.from_estimator(model, X[:1]).rows[0]
    assert middle.title == "row 0, quantile 0.5"
    assert middle.base == model.intercept_[1]
    low = sl.WaterfallDisplay.from_estimator(model, X[:1], label=0.1).rows[0]
    assert low.base + low.sizes.sum() == pytest.approx(
        model.intercept_[0] + model.explain(X[:1])[0, :, 0].sum()
    )
    other = several(n_bases=5, C=0.01, tol=0.01).fit(X, y)
    assert sl.AdditiveDisplay.compare(model, other, of_class=0.5).distances_.columns["distance"]
    with pytest.raises(ValueError, match="the classes of the two models are"):
        sl.AdditiveDisplay.compare(model, several(0.5, n_bases=5).fit(X, y))
    assert "0.8" in model.report()
    edited = model.edit(0, [0.4, 0.6], 0.0)
    np.testing.assert_allclose(np.ptp(edited.shape_function(0, [0.45, 0.55]), axis=0), 0, atol=1e-9)


@pytest.mark.parametrize(
    "levels", [[0.5], [0.5, 0.1], [0.1, 0.1], [0.1, 1.0], ["a", "b"], [], (0.0, 0.5)]
)
def test_levels_are_at_least_two_that_ascend(levels):
    X, y = rows(50)
    with pytest.raises(ValueError, match="at least two of them that ascend"):
        several(levels).fit(X, y)


def test_what_takes_one_quantile_says_so():
    X, y = rows()
    model = several(n_bases=4, tol=0.05).fit(X, y)
    for metric in ("r2", "neg_mean_squared_error", "mean_pinball_loss(0.5)"):
        with pytest.raises(ValueError, match=r"one for each of the quantiles \[0.1, 0.5, 0.8\]"):
            model.score(X, y, metric=metric)
    with pytest.raises(ValueError, match="use 'mean_pinball_loss', their mean"):
        sl.cross_validate(model, X, 2, y=y)
    with pytest.raises(ValueError, match="a report on data is of one prediction a row"):
        model.report(X, y)
    for export in (sl.to_sql, sl.to_onnx):
        with pytest.raises(ValueError, match="fit one quantile to export it"):
            export(model)
    with pytest.raises(ValueError, match="The 'quantile' parameter of AdditiveRegressorCV"):
        sl.AdditiveRegressorCV("quantile", quantile=LEVELS).fit(X, y)
    with pytest.raises(ValueError, match="solver='newton' needs a smooth loss"):
        several(solver="newton").fit(X, y)
    found = sl.cross_validate(model, X, 2, y=y, scoring="neg_mean_pinball_loss")
    assert np.isfinite(found.scores).all()


def test_the_levels_of_another_loss_are_not_looked_at():
    X, y = rows()
    a = sl.AdditiveRegressor(quantile=LEVELS, n_bases=4).fit(X, y)
    b = sl.AdditiveRegressor(n_bases=4).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)
