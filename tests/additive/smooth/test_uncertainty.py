"""Bands, standard deviations, tests and tables: least squares in closed form, and simulations."""

import numpy as np
import pytest
from scipy import stats

import streamlearn as sl
from streamlearn.additive.smooth.significance import upper_tail
from streamlearn.numeric.bases.bsplines import evaluate


def rows(n=400, seed=0, noise=0.5):
    """(X, y, f_0, f_1): two effects and a column of noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    f, g = np.sin(6 * X[:, 0]), 6 * (X[:, 1] - 0.5) ** 2
    return X, f + g + noise * rng.normal(size=n), f, g


def design(model, X):
    """Rows of [Phi - c, 1], written out."""
    posterior = model._posterior
    Phi = np.column_stack([evaluate(model.bases_, d, X[:, d]) for d in range(X.shape[1])])
    return np.column_stack([Phi - posterior.reference, np.ones(len(X))])


def test_without_a_penalty_the_deviations_are_those_of_least_squares():
    X, y, *_ = rows()
    how = {"C": 1e7, "n_bases": 5, "intercept_scaling": 1e3}
    model = sl.AdditiveRegressor(**how, covariance=True).fit(X, y)
    A = design(model, X)
    kept = np.delete(A, [0, 5, 10], axis=1)  # a constant of each term is in the intercept
    Q = np.linalg.qr(kept)[0]
    residual = y - Q @ (Q.T @ y)
    variance = residual @ residual / (len(y) - kept.shape[1])
    assert model.scale_ == pytest.approx(variance, rel=1e-5)
    np.testing.assert_allclose(model.effective_dof_, 4, rtol=1e-4)
    mean, deviation = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, y - residual, atol=1e-4)
    np.testing.assert_allclose(deviation, np.sqrt(variance * (Q**2).sum(1)), rtol=1e-4)
    low, high = model.predict_interval(X, of="target").T
    reach = stats.norm.ppf(0.975) * np.sqrt(deviation**2 + model.scale_)
    np.testing.assert_allclose(high - mean, reach)
    np.testing.assert_allclose(mean - low, reach)


def test_a_row_is_as_precise_alone_in_a_frame_in_a_dataset_and_on_disk(tmp_path):
    import pandas as pd

    X, y, *_ = rows()
    frame = pd.DataFrame(X, columns=list("abc"))
    model = sl.AdditiveRegressor(smoothness="reml", n_bases=6).fit(frame, y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=97)
    deviation = model.predict(frame, return_std=True)[1]
    A, covariance = design(model, X), model._posterior.covariance[0]
    np.testing.assert_allclose(deviation, np.sqrt(np.einsum("ij,jk,ik->i", A, covariance, A)))
    data = sl.open_dataset(tmp_path / "rows.parquet")
    np.testing.assert_array_equal(model.predict(data, return_std=True)[1], deviation)
    np.testing.assert_array_equal(model.predict(frame[7:8], return_std=True)[1], deviation[7:8])
    model.predict_to(data, tmp_path / "out", what="deviation")
    written = pd.read_parquet(tmp_path / "out")["deviation"]
    np.testing.assert_array_equal(written, deviation)
    sl.save(model, tmp_path / "model.slm")
    again = sl.load(tmp_path / "model.slm")
    np.testing.assert_array_equal(again.predict(frame, return_std=True)[1], deviation)
    assert str(again.summary_table()) == str(model.summary_table())


def test_counts_have_intervals_around_their_means_and_classes_deviations_of_decisions():
    from scipy.sparse import csr_matrix

    X, _, f, g = rows()
    counts = np.random.default_rng(0).poisson(np.exp(f + g))
    model = sl.AdditiveRegressor("poisson", smoothness="reml", n_bases=6).fit(X, counts)
    mean, deviation = model.predict(X, return_std=True)
    low, high = model.predict_interval(X, 0.9).T
    np.testing.assert_allclose(np.log(high / mean), stats.norm.ppf(0.95) * deviation / mean)
    np.testing.assert_allclose(high / mean, mean / low)
    with pytest.raises(ValueError, match="of='target' knows how targets spread with loss="):
        model.predict_interval(X, of="target")
    X[X < 0.2] = 0.0
    sparse = sl.AdditiveClassifier(smoothness="reml", n_bases=6)
    sparse.fit(csr_matrix(X), np.digitize(f, [-0.3, 0.5]))
    from streamlearn.estimator.predicting import answer

    deviations = answer(sparse, csr_matrix(X), "deviation")
    A = design(sparse, X)
    squares = np.einsum("ij,kjl,il->ik", A, sparse._posterior.covariance, A)
    np.testing.assert_allclose(deviations, np.sqrt(squares))
    assert sparse.shape_function(0, [0.0, 0.5], return_std=True)[1].shape == (2, 3)


def test_the_display_has_bands_and_whiskers():
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    X, y, *_ = rows()
    X[:, 1] = np.floor(3 * X[:, 1])
    X[::9, 2] = np.nan
    model = sl.AdditiveRegressor(smoothness="reml", n_bases=6).fit(X, y)
    display = sl.AdditiveDisplay.from_estimator(model)
    curve, deviation = model.shape_function(0, display.grids[0], return_std=True)
    band = display.axes_[0].collections[0].get_paths()[0].vertices[:, 1]
    reach = stats.norm.ppf(0.975) * deviation
    assert band.max() == pytest.approx((curve + reach).max())
    assert band.min() == pytest.approx((curve - reach).min())
    assert len(display.axes_[1].collections) == 1  # a band through the points of few values
    missing, deviation = model.shape_function(2, [np.nan], return_std=True)
    (on_missing,) = display.axes_[2].collections[1].get_segments()
    reach = stats.norm.ppf(0.975) * deviation
    np.testing.assert_allclose(on_missing[:, 1], [*(missing - reach), *(missing + reach)])
    assert (on_missing[:, 0] == display.axes_[2].lines[1].get_xdata()).all()
    plain = sl.AdditiveDisplay.from_estimator(model, coverage=None)
    assert not plain.axes_[0].collections
    plt.close("all")


def test_the_table_names_the_terms_that_matter():
    X, y, *_ = rows()
    X = np.column_stack([X, np.ones(len(X))])  # a constant column has no line
    table = sl.AdditiveRegressor(smoothness="reml", n_bases=8).fit(X, y).summary_table()
    assert table.columns["term"] == ["x0", "x1", "x2"]
    p = table.columns["p-value"]
    assert max(p[:2]) < 1e-10
    assert p[2] > 0.01
    explained = 1 - 0.25 / np.var(y)
    assert table.facts["deviance explained"] == pytest.approx(explained, abs=0.05)
    assert table.facts["scale"] == pytest.approx(0.25, rel=0.2)
    lines = str(table).splitlines()
    sizes = ["importance", "std", "error"]
    assert lines[-4].split() == ["term", *sizes, "edf", "reference", "df", "F", "p-value"]
    assert lines[-3].startswith("x0")
    assert "smoothness: reml" in lines


@pytest.mark.parametrize(("degrees", "rows"), [(1, None), (3, None), (2, 30), (7, 12)])
def test_tails_of_sums_of_chi_squares_are_near_those_of_one(degrees, rows):
    for p in (0.9, 0.5, 0.05, 1e-4, 1e-12):
        weights, df, x = np.ones(1), np.array([float(degrees)]), stats.chi2.isf(p, degrees)
        if rows is not None:  # F: chi2(a) / a - x chi2(b) / b > 0
            x = stats.f.isf(p, degrees, rows)
            weights = np.array([1.0 / degrees, -x / rows])
            df, x = np.array([float(degrees), float(rows)]), 0.0
        assert upper_tail(weights, df, x) == pytest.approx(p, rel=0.13)


def test_tails_of_unequal_weights_are_those_of_draws():
    weights = np.array([1.0, 0.3, 0.05])
    draws = np.random.default_rng(0).chisquare(1, (100_000, 3)) @ weights
    for x in (0.3, 1.35, 3.0):
        assert upper_tail(weights, np.ones(3), x) == pytest.approx((draws > x).mean(), abs=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_error", "poisson", "log_loss"])
def test_bands_cover_as_often_as_they_say_and_tests_of_noise_are_uniform(loss):
    covered, p_values = [], []
    for seed in range(200):
        X, y, f, g = rows(seed=seed)
        rng = np.random.default_rng(seed + 1000)
        how = {"smoothness": "reml", "n_bases": 12}
        if loss == "log_loss":
            # 400 classes tell less: of half this signal some fits shrink a term to nothing, whose
            # band then covers nothing either (91 % on average)
            f, g = 2 * f, 2 * g
            y = rng.random(len(X)) < 1 / (1 + np.exp(-(f + g)))
            model = sl.AdditiveClassifier(**how).fit(X, y)
        else:
            y = y if loss == "squared_error" else rng.poisson(np.exp(f + g))
            model = sl.AdditiveRegressor(loss, **how).fit(X, y)
        for d, truth in enumerate((f, g)):
            curve, deviation = model.shape_function(d, X[:, d], return_std=True)
            covered.append((abs(curve - truth + truth.mean()) < 1.96 * deviation).mean())
        p_values.append(model.summary_table().columns["p-value"][2])
    assert 0.93 < np.mean(covered) < 0.97
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
