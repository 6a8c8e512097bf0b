"""Every metric by name against scikit-learn, from rows in many chunks; refusals by name."""

import warnings

import numpy as np
import pytest
from estimator.ridge import RidgeClassifier, RidgeRegressor
from scipy import special
from sklearn import metrics

import streamlearn as sl
from streamlearn.data.memory.opening import open_arrays
from streamlearn.data.open import dataset_of
from streamlearn.estimator.scores import metrics as own
from streamlearn.estimator.scores.metrics import NAMES, find_metric, is_loss
from streamlearn.estimator.scores.scoring import evaluate

N = 900


def brier(y, p, w):
    """Two classes: of the second; more: the sum over the classes."""
    hot = y[:, None] == np.arange(p.shape[1])
    each = ((p - hot) ** 2).sum(axis=1) * (0.5 if p.shape[1] == 2 else 1.0)
    return np.average(each, weights=w)


def one_against_rest(score):
    def mean(y, f, w):
        if f.ndim == 1:
            return score(y == 1, f, sample_weight=w)
        return np.mean([score(y == k, f[:, k], sample_weight=w) for k in range(f.shape[1])])

    return mean


def lift(y, f, w):
    """Of the highest tenth; the row that the tenth ends in counts in part."""
    order = np.argsort(-f)
    end = np.cumsum(w[order])
    inside = np.clip(0.1 * w.sum() - (end - w[order]), 0.0, w[order])
    return (inside @ (y[order] == 1)) / inside.sum() / (w @ (y == 1) / w.sum())


OF_CLASSES = {
    "accuracy": lambda y, f, p, w: metrics.accuracy_score(y, p.argmax(1), sample_weight=w),
    "log_loss": lambda y, f, p, w: metrics.log_loss(y, p, sample_weight=w),
    "brier_score": lambda y, f, p, w: brier(y, p, w),
    "roc_auc": lambda y, f, p, w: one_against_rest(metrics.roc_auc_score)(y, f, w),
    "average_precision": lambda y, f, p, w: one_against_rest(metrics.average_precision_score)(
        y, f, w
    ),
    "lift": lambda y, f, p, w: lift(y, f, w),
}
OF_NUMBERS = {
    "r2": metrics.r2_score,
    "mean_squared_error": metrics.mean_squared_error,
    "mean_absolute_error": metrics.mean_absolute_error,
    "mean_pinball_loss": metrics.mean_pinball_loss,
    "mean_poisson_deviance": metrics.mean_poisson_deviance,
    "mean_gamma_deviance": metrics.mean_gamma_deviance,
}


def dispersed_deviance(y, f, sample_weight):
    """Twice the log-probabilities that scipy gives less of f than of y itself, dispersion 1/2."""
    r = 2.0
    logs = [y * np.log(m / (m + r)) + r * np.log(r / (m + r)) for m in (y, f)]
    return np.average(2 * (logs[0] - logs[1]), weights=sample_weight)


NUMBERED = {
    "mean_pinball_loss(0.9)": lambda y, f, sample_weight: metrics.mean_pinball_loss(
        y, f, sample_weight=sample_weight, alpha=0.9
    ),
    "mean_tweedie_deviance(1.5)": lambda y, f, sample_weight: metrics.mean_tweedie_deviance(
        y, f, sample_weight=sample_weight, power=1.5
    ),
    "mean_tweedie_deviance(3)": lambda y, f, sample_weight: metrics.mean_tweedie_deviance(
        y, f, sample_weight=sample_weight, power=3
    ),
    "d2_tweedie_score(1)": lambda y, f, sample_weight: metrics.d2_tweedie_score(
        y, f, sample_weight=sample_weight, power=1
    ),
    "d2_tweedie_score(1.5)": lambda y, f, sample_weight: metrics.d2_tweedie_score(
        y, f, sample_weight=sample_weight, power=1.5
    ),
    "d2_tweedie_score(2)": lambda y, f, sample_weight: metrics.d2_tweedie_score(
        y, f, sample_weight=sample_weight, power=2
    ),
    "d2_negative_binomial_score(0.5)": lambda y, f, sample_weight: (
        1
        - dispersed_deviance(y, f, sample_weight)
        / dispersed_deviance(y, np.average(y, weights=sample_weight), sample_weight)
    ),
    "mean_negative_binomial_deviance(0.5)": dispersed_deviance,
    "mean_negative_binomial_deviance(5e-1)": dispersed_deviance,
}


def table(n_classes=2):
    rng = np.random.default_rng(n_classes)
    X = rng.standard_normal((N, 3))
    y = np.clip(np.round(X[:, 0] + 0.7 * rng.standard_normal(N) + 0.5), 0, n_classes - 1)
    z = 5.0 + 0.5 * X[:, 1] + 0.2 * np.abs(rng.standard_normal(N))
    return X, y.astype(int), z, rng.random(N) * (rng.random(N) < 0.9)


def opened(X, y, w):
    """In chunks of 64 rows."""
    rows = dataset_of(open_arrays(X, y, w), "y", "sample_weight", ("x0", "x1", "x2"))
    return rows.with_slice_rows(64)


def test_every_name_has_an_oracle():
    plain = {name.removeprefix("neg_") for name in NAMES}
    assert plain == {*OF_CLASSES, *OF_NUMBERS, *own.OF_LOSSES}
    assert {name for name in NAMES if is_loss(name)} == {
        name for name in plain if f"neg_{name}" in NAMES
    }


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_classifiers_as_scikit_learn(name, n_classes):
    X, y, _, w = table(n_classes)
    model = sl.AdditiveClassifier(n_bases=6).fit(X, y)
    data = opened(X, y, w)
    if name == "lift" and n_classes > 2:
        with pytest.raises(ValueError, match="'lift' is about two classes, and this model has 4"):
            model.score(data, metric=name)
        return
    f = model.decision_function(X) if n_classes == 2 else model.predict_proba(X)
    expected = OF_CLASSES[name](y, f, model.predict_proba(X), w)
    assert model.score(data, metric=name) == pytest.approx(expected, rel=1e-10)
    assert model.score(X, y, w, metric=name) == pytest.approx(expected, rel=1e-10)
    if is_loss(name):
        assert model.score(data, metric=f"neg_{name}") == -model.score(data, metric=name)


@pytest.mark.parametrize("name", [*OF_NUMBERS, *NUMBERED])
def test_regressors_as_scikit_learn(name):
    X, _, z, w = table()
    model = RidgeRegressor().fit(X, z)
    expected = {**OF_NUMBERS, **NUMBERED}[name](z, model.predict(X), sample_weight=w)
    data = opened(X, z, w)
    assert model.score(data, metric=name) == pytest.approx(expected, rel=1e-10)
    if is_loss(name):
        assert model.score(data, metric=f"neg_{name}") == -model.score(data, metric=name)


@pytest.mark.parametrize("part", range(1, 11))
def test_tenths_weighed_by_the_rows_make_the_whole(part):
    X, y, _, _ = table()
    model = RidgeClassifier().fit(X, y)
    order = np.argsort(-model.decision_function(X))
    tenth = order[(part - 1) * N // 10 : part * N // 10]
    expected = y[tenth].mean() / y.mean()
    assert model.score(X, y, metric=f"lift({part})") == pytest.approx(expected, rel=1e-10)


def test_a_model_names_the_quantile_and_the_power():
    X, _, z, w = table()
    model = sl.AdditiveRegressor(loss="quantile", quantile=0.8, n_bases=4, tol=0.01).fit(X, z)
    expected = metrics.mean_pinball_loss(z, model.predict(X), sample_weight=w, alpha=0.8)
    assert model.score(X, z, w, metric="mean_pinball_loss") == pytest.approx(expected, rel=1e-10)
    model = sl.AdditiveRegressor(loss="tweedie", power=1.3, n_bases=4).fit(X, z)
    expected = metrics.mean_tweedie_deviance(z, model.predict(X), sample_weight=w, power=1.3)
    found = model.score(X, z, w, metric="mean_tweedie_deviance")
    assert found == pytest.approx(expected, rel=1e-10)
    model = sl.AdditiveRegressor("negative_binomial", dispersion=0.5, n_bases=4).fit(X, z)
    expected = dispersed_deviance(z, model.predict(X), w)
    found = model.score(X, z, w, metric="mean_negative_binomial_deviance")
    assert found == pytest.approx(expected, rel=1e-10)


def test_a_dispersion_near_0_is_the_deviance_of_poisson():
    X, _, z, w = table()
    model, zeros = RidgeRegressor().fit(X, z), np.where(z > 6, 0.0, z)
    near = model.score(X, zeros, w, metric="mean_negative_binomial_deviance(1e-9)")
    assert near == pytest.approx(model.score(X, zeros, w, metric="mean_poisson_deviance"), rel=1e-6)


def test_the_deviance_explained_of_counts_sorted_with_zeros_first_and_of_constants():
    X, _, z, w = table()
    counts = np.sort(np.random.default_rng(0).poisson(1.0, N)).astype(float)  # chunks all of 0
    model = sl.AdditiveRegressor("negative_binomial", dispersion=0.5, n_bases=4).fit(X, counts)
    mean = model.predict(X)
    found = model.score(opened(X, counts, w), metric="d2_negative_binomial_score")
    r, y = 2.0, counts
    each = [
        2 * (special.xlogy(y, y / m) - (y + r) * np.log((y + r) / (m + r)))
        for m in (mean, np.average(y, weights=w))
    ]
    assert found == pytest.approx(1 - (w @ each[0]) / (w @ each[1]), rel=1e-9)
    poisson = model.score(opened(X, counts, w), metric="d2_tweedie_score(1)")
    expected = metrics.d2_tweedie_score(counts, mean, sample_weight=w, power=1)
    assert poisson == pytest.approx(expected, rel=1e-9)
    alike = RidgeRegressor().fit(X, z)
    assert alike.score(X, np.full(N, 2.0), metric="d2_tweedie_score(1)") == 0.0


def test_more_scores_than_are_kept_apart(monkeypatch):
    X, y, _, w = table()
    model = RidgeClassifier().fit(X, y)
    exact = model.score(X, y, w, metric="roc_auc")
    few = 40
    grouped, merged = own.grouped_scores, own.merge_groups
    monkeypatch.setattr(own, "grouped_scores", lambda *rows: grouped(*rows, few))
    monkeypatch.setattr(own, "merge_groups", lambda a, b: merged(a, b, few))
    with pytest.warns(UserWarning, match="roc_auc is .* to within") as caught:
        rough = model.score(X, y, w, metric="roc_auc")
    error = float(str(caught[0].message).split("within ")[1].split(":")[0])
    assert 0 < abs(rough - exact) <= error < 0.1


def test_many_scores_are_known_well():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 1))
    y = X[:, 0] + rng.standard_normal(30_000) > 0
    model = RidgeClassifier().fit(X, y)
    f = model.decision_function(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [model.score(X, y, metric=m) for m in ("roc_auc", "average_precision", "lift(2)")]
    expected = [metrics.roc_auc_score(y, f), metrics.average_precision_score(y, f)]
    np.testing.assert_allclose(found[:2], expected, atol=1e-4)  # no warning: errors are below 1e-3
    order = np.argsort(-f)
    assert found[2] == pytest.approx(y[order[3000:6000]].mean() / y.mean(), abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_cross_validation_by_name(name):
    X, y, z, w = table()
    classifies = find_metric(name).classifies
    model = RidgeClassifier() if classifies else RidgeRegressor()
    target = y if classifies else z
    if name.removeprefix("neg_") in own.OF_LOSSES:
        name += "(1.5)"
    if is_loss(name):
        with pytest.raises(ValueError, match=f"greater for better models; use 'neg_{name[:8]}"):
            sl.cross_validate(model, X, y=target, scoring=name)
        return
    result = sl.cross_validate(model, X, 2, y=target, sample_weight=w, scoring=name)
    assert np.isfinite(result.scores).all()
    assert result.scoring == name


def test_refusals():
    X, y, z, _ = table()
    model, number = RidgeClassifier().fit(X, y), RidgeRegressor().fit(X, z)
    with pytest.raises(ValueError, match="scoring='f1' is not known; use one of accuracy, roc_auc"):
        model.score(X, y, metric="f1")
    with pytest.raises(ValueError, match=r"scoring='roc_auc\(2\)' is not known"):
        model.score(X, y, metric="roc_auc(2)")
    with pytest.raises(ValueError, match=r"lift\(11\) needs a tenth of the rows, from 1"):
        model.score(X, y, metric="lift(11)")
    with pytest.raises(ValueError, match=r"mean_pinball_loss\(1\) needs a quantile between"):
        number.score(X, z, metric="mean_pinball_loss(1)")
    with pytest.raises(ValueError, match=r"mean_tweedie_deviance\(0.5\) needs a power of at least"):
        number.score(X, z, metric="mean_tweedie_deviance(0.5)")
    with pytest.raises(ValueError, match=r"takes the power of loss='tweedie'.*deviance\(1.5\)'"):
        number.score(X, z, metric="mean_tweedie_deviance")
    name = "mean_negative_binomial_deviance"
    with pytest.raises(ValueError, match=r"deviance\(0\) needs a dispersion above 0"):
        number.score(X, z, metric=f"{name}(0)")
    with pytest.raises(ValueError, match=r"takes the dispersion of loss='negative_binomial'"):
        number.score(X, z, metric=name)
    with pytest.raises(ValueError, match="a deviance of dispersion 1 needs targets of at least"):
        number.score(X, z - 10, metric=f"{name}(1)")
    with pytest.raises(ValueError, match="does not fit RidgeRegressor; use one of r2"):
        number.score(X, z, metric="roc_auc")
    with pytest.raises(ValueError, match="roc_auc is not defined: it compares"):
        model.score(X[y == 1], y[y == 1], metric="roc_auc")
    with pytest.raises(ValueError, match="a ranking: label .*7.* was not in the training data"):
        model.score(X, np.where(y == 1, 7, 0), metric="average_precision")
    with pytest.raises(
        ValueError, match="targets of at least 0 and predictions above 0; row 0 has"
    ):
        number.score(X, z - 10, metric="mean_poisson_deviance")
    hinge = sl.AdditiveClassifier(loss="hinge", n_bases=4).fit(X, y)
    with pytest.raises(AttributeError, match="loss='hinge' gives no probabilities"):
        hinge.score(X, y, metric="brier_score")
    assert 0.5 < evaluate(hinge, X, y, scoring=["roc_auc"])["roc_auc"] < 1
