"""Models of parts of the rows as one: the closed form, the fit to all rows, and what is refused."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from additive_kit import mixed, table

import streamlearn as sl
from streamlearn.estimator.predicting import answer
from streamlearn.numeric.bases.bsplines import evaluate
from streamlearn.numeric.bases.roughness import make_roughness

CUTS = [0, 150, 420, 600]


def parts_of(model, X, y, cuts=CUTS, weight=None):
    """The model fitted to each part, with the breakpoints of the first, and to all rows."""
    found = [model]
    for a, z in zip(cuts[:-1], cuts[1:], strict=True):
        s = None if weight is None else weight[a:z]
        found.append(deepcopy(found[min(len(found) - 1, 1)]).fit(X[a:z], y[a:z], s))
    return found[1:], deepcopy(found[1]).fit(X, y, weight)


def numbers(n=600, seed=0):
    """(X, y): two effects, a column of noise, three values; the noise is normal."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 4))
    X[:, 3] = np.floor(3 * X[:, 3])
    f = np.sin(6 * X[:, 0]) + 2 * X[:, 1] ** 2 + (X[:, 3] == 1)
    return X, f + 0.5 * rng.normal(size=n)


def test_squared_errors_are_merged_to_the_closed_form_of_all_rows():
    X, y = numbers()
    C, B = 3.0, 2.0
    model = sl.AdditiveRegressor(
        C=C, n_bases=8, intercept_scaling=B, covariance=True, warm_start=True
    )
    parts, _ = parts_of(model, X, y)
    merged = parts[0].merge(*parts[1:])
    bases = parts[0].bases_
    Phi = np.column_stack([evaluate(bases, d, X[:, d]) for d in range(X.shape[1])])
    # the summaries know the means to their bins; only the penalty of the intercept goes by them
    reference = merged._posterior.reference
    np.testing.assert_allclose(reference, Phi.mean(axis=0), atol=0.01)
    A = np.column_stack([Phi - reference, np.ones(len(X))])
    roughness = make_roughness(bases, 1)
    S = np.zeros((A.shape[1], A.shape[1]))
    for d, (a, z) in enumerate(zip(bases.first[:-1], bases.first[1:], strict=True)):
        begin, n = roughness.table[d], z - a
        S[a:z, a:z] = roughness.P[begin : begin + n * n].reshape(n, n)
    S[-1, -1] = 1 / B**2
    H = 2 * C * A.T @ A + S
    theta = np.linalg.solve(H, 2 * C * A.T @ (y - y.mean()))
    np.testing.assert_allclose(merged.predict(X), y.mean() + A @ theta, rtol=0, atol=1e-9)
    # psi is twice the residual variance, by the degrees of freedom
    freedom = np.trace(np.linalg.solve(H, 2 * C * A.T @ A))
    variance = ((y - y.mean() - A @ theta) ** 2).sum() / (len(y) - freedom)
    assert merged.scale_ == pytest.approx(variance, rel=1e-8)
    V = 2 * variance * C * np.linalg.inv(H)
    deviation = np.sqrt(np.einsum("ij,jk,ik->i", A, V, A))
    np.testing.assert_allclose(merged.predict(X, return_std=True)[1], deviation, rtol=1e-7)


@pytest.mark.parametrize(
    "how",
    [
        {"C": 10},
        {"smoothness": "reml"},
        {"smoothness": "gcv", "degree": 3, "penalty_order": 2},
        {"smoothness": "reml", "select": True, "penalty_order": 2},
        {"smoothness": "reml", "basis": "cosine"},
    ],
    ids=str,
)
def test_squared_errors_are_merged_to_the_fit_to_all_rows(how):
    X, y = mixed()
    y = y + 0.3 * np.random.default_rng(1).normal(size=len(y))
    weight = np.random.default_rng(2).integers(1, 4, len(y)).astype(float)
    model = sl.AdditiveRegressor(**how, n_bases=9, covariance=True, warm_start=True)
    parts, whole = parts_of(model, X, y, weight=weight)
    merged = parts[0].merge(*parts[1:])
    # the choice of the smoothness ends where degrees of freedom move by less than 1e-4
    atol = 1e-7 if "C" in how else 1e-3
    np.testing.assert_allclose(merged.predict(X), whole.predict(X), rtol=0, atol=atol)
    # summaries know the means that terms are less of to their bins, those of categories exactly
    got, expected = merged.explain(X), whole.explain(X)
    np.testing.assert_allclose(got[:, 1:3], expected[:, 1:3], rtol=0, atol=atol)
    np.testing.assert_allclose(got - got[0], expected - expected[0], rtol=0, atol=atol)
    np.testing.assert_allclose(merged.intercept_, whole.intercept_, rtol=0, atol=2e-3)
    np.testing.assert_allclose(merged.effective_dof_, whole.effective_dof_, atol=10 * atol)
    one, other = merged.summary_table(), whole.summary_table()
    assert one.facts["rows (by weight)"] == pytest.approx(weight.sum())
    for name in ("deviance explained", "scale", "effective degrees of freedom"):
        assert one.facts[name] == pytest.approx(other.facts[name], rel=atol)
    np.testing.assert_allclose(
        merged.predict(X, return_std=True)[1], whole.predict(X, return_std=True)[1], rtol=10 * atol
    )
    for d, (got, expected) in enumerate(zip(merged.densities_, whole.densities_, strict=True)):
        np.testing.assert_allclose(got.share, expected.share, atol=1e-12 if d in (1, 2) else 0.01)
        assert got.missing == pytest.approx(expected.missing)
    # the bars of a density hold the size of a curve to their width
    np.testing.assert_allclose(
        merged.term_importances_, whole.term_importances_, rtol=0.03, atol=1e-3
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_of_classes_the_error_is_within_its_bound_and_goes_as_one_over_the_rows(n_classes):
    """|l'''| <= l'' of the log-loss, so its slope a step d from where a part's model was made is

        l'(f + d) = l'(f) + l''(f) (d + r),   |r| <= e^|d| - 1 - |d|,

    and merging projects the r of all rows, in the metric of the l''.
    """
    sizes = []
    for n in (1000, 4000, 64000):
        X, y = table(n, n_classes=n_classes)
        model = sl.AdditiveClassifier(C=1, n_bases=6, tol=1e-9, covariance=True, warm_start=True)
        parts, whole = parts_of(model, X, y, [0, n // 2, n])
        merged = parts[0].merge(parts[1])
        own = np.concatenate(
            [part.decision_function(X[own]) for part, own in zip(parts, (
                slice(0, n // 2), slice(n // 2, n)), strict=True)]
        )  # fmt: skip
        decisions = whole.decision_function(X)
        step = np.abs(decisions - own)
        weight = 1 / (2 + np.exp(own) + np.exp(-own))
        error = merged.decision_function(X) - decisions
        found = np.sqrt((weight * error**2).sum(axis=0))
        bound = np.sqrt((weight * (np.exp(step) - 1 - step) ** 2).sum(axis=0))
        assert (found <= bound + 1e-3).all()  # tol: an objective known to 1e-9 of some 1e4
        assert (found <= 0.2 * np.sqrt((weight * step**2).sum(axis=0))).all()
        sizes.append(np.sqrt(np.mean(error**2)))
    # sixteen times the rows leave a sixteenth where parts are held by their penalties but little
    assert sizes[2] < sizes[1] / (8 if n_classes == 2 else 4)


def test_counts_with_exposures_and_sparse_rows_are_merged():
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    n = 4000
    X, _ = numbers(n)
    X[:, 2] = 1 + X[:, 2]  # exposures
    counts = rng.poisson(3 * X[:, 2] * np.exp(np.sin(6 * X[:, 0]) - X[:, 1]))
    how = {"C": 1, "n_bases": 6, "tol": 1e-8, "covariance": True, "warm_start": True}
    parts, whole = parts_of(
        sl.AdditiveRegressor("poisson", exposure=2, **how), X, counts, [0, n // 2, n]
    )
    merged = parts[0].merge(parts[1])
    gap = np.log(merged.predict(X) / whole.predict(X))
    mean, deviation = whole.predict(X, return_std=True)
    assert np.abs(gap * mean / deviation).max() < 10 / np.sqrt(n)
    assert merged.explain(X)[5, 2] == pytest.approx(np.log(X[5, 2]))

    X[X < 0.4] = 0.0
    y = X[:, 0] + np.sin(6 * X[:, 1]) + 0.2 * rng.normal(size=n)
    for order in (0, 1):
        model = sl.AdditiveRegressor(**how, penalty_order=order)
        parts, whole = parts_of(model, csr_matrix(X), y, [0, n // 3, n])
        merged = parts[0].merge(parts[1])
        np.testing.assert_allclose(
            merged.predict(csr_matrix(X)), whole.predict(csr_matrix(X)), rtol=0, atol=1e-7
        )
        dense = deepcopy(parts[0]).fit(X, y)
        with pytest.raises(ValueError, match="model 1 was fitted to dense rows, model 0 was not"):
            parts[0].merge(dense)


def test_importances_are_those_of_all_rows_where_many_have_one_value_too():
    X, y = table(3000)  # four fifths of the last column are 0
    y = y + 3 * X[:, 4]
    model = sl.AdditiveRegressor(C=1, n_bases=6, covariance=True, warm_start=True)
    parts, whole = parts_of(model, X, y, [0, 1000, 3000])
    merged = parts[0].merge(parts[1])
    expected = np.abs(merged.explain(X)).mean(axis=0)
    np.testing.assert_allclose(whole.term_importances_, expected, rtol=0.02, atol=1e-9)
    np.testing.assert_allclose(merged.term_importances_[:4], expected[:4], rtol=0.02, atol=1e-9)
    assert merged.term_importances_[4] == pytest.approx(expected[4], rel=0.08)
    # its density alone is off by twice that
    assert merged._sizes_by_density()[4] < 0.88 * expected[4]


@pytest.mark.parametrize("criterion", ["reml", "gcv"])
def test_the_smoothness_of_classes_is_chosen_anew(criterion):
    X, y = table(6000)
    model = sl.AdditiveClassifier(smoothness=criterion, n_bases=8, tol=1e-7, warm_start=True)
    parts, whole = parts_of(model, X, y, [0, 2000, 6000])
    merged = parts[0].merge(parts[1])
    gap = merged.decision_function(X) - whole.decision_function(X)
    deviation = np.sqrt(np.mean((gap / answer(whole, X, "deviation")) ** 2))
    assert deviation < 0.1  # the error of a second order
    np.testing.assert_allclose(merged.effective_dof_, whole.effective_dof_, atol=0.01)


def test_models_are_merged_in_any_order_and_step_by_step():
    X, y = table(1500)
    model = sl.AdditiveClassifier(C=1, n_bases=6, covariance=True, warm_start=True, tol=1e-7)
    (a, b, c), _ = parts_of(model, X, y, [0, 400, 900, 1500])
    at_once = a.merge(b, c)
    for other in (a.merge(b).merge(c), a.merge(b.merge(c)), c.merge(a, b)):
        np.testing.assert_allclose(
            other.decision_function(X), at_once.decision_function(X), rtol=0, atol=1e-7
        )
        np.testing.assert_allclose(
            other._posterior.covariance, at_once._posterior.covariance, rtol=0, atol=1e-8
        )
        assert sorted(one["rows"] for one in other.merged_) == [400, 500, 600]
    assert a.merged_ == []
    assert a.certificate_.converged


def test_a_merged_model_says_so_and_is_saved_edited_exported_and_proved(tmp_path):
    X, y = mixed()
    model = sl.AdditiveRegressor(C=10, n_bases=9, covariance=True, warm_start=True)
    parts, whole = parts_of(model, X, y)
    merged = parts[0].merge(*parts[1:])
    assert not merged.certificate_.converged
    assert merged.certificate_.relative_gap is None
    assert merged.certificate_.criterion == "none: merged from 3 fits to parts of the rows"
    assert merged.certificate_.rows_read == 3 * len(y)
    assert merged.n_passes_ == sum(part.n_passes_ for part in parts)
    assert merged.history_ == []
    assert "nothing to prove: merged from 3 fits" in dict(merged._facts())["certificate"]
    assert dict(merged._facts())["rows"] == "600"
    assert [one["rows"] for one in merged.merged_] == [150, 270, 180]
    assert all(one["relative_gap"] < 1e-8 for one in merged.merged_)
    assert "merged from 3 fits" in merged.report()

    sl.save(merged, tmp_path / "m.slm")
    loaded = sl.load(tmp_path / "m.slm")
    np.testing.assert_array_equal(loaded.predict(X), merged.predict(X))
    assert loaded.merged_ == merged.merged_
    assert loaded.certificate_ == merged.certificate_
    again = loaded.merge(parts[0])
    np.testing.assert_array_equal(again.coef_, merged.merge(parts[0]).coef_)
    assert [one["rows"] for one in again.merged_] == [150, 270, 180, 150]
    table = sl.to_dict(merged)
    assert table["intercept"] == pytest.approx(merged.intercept_)

    edited = merged.edit("many", [0.2, 0.4], 0.0)
    assert edited.merged_ == merged.merged_
    assert "merged from 3 fits" in edited.certificate_.reason
    with pytest.raises(ValueError, match=r"model 1 was edited after the fit: many \(0.2 to 0.4\)"):
        parts[0].merge(edited)
    # a fit to all rows proves what it begins at
    proved = deepcopy(merged).fit(X, y)
    assert proved.certificate_.converged
    assert proved.merged_ == []
    np.testing.assert_array_equal(proved.knots_[0], whole.knots_[0])
    np.testing.assert_allclose(proved.predict(X), merged.predict(X), rtol=0, atol=1e-7)


def test_a_warm_start_leaves_nothing_to_do_for_newton_after_a_merge():
    X, y = table(4000)
    how = {"C": 1, "n_bases": 6, "covariance": True, "warm_start": True, "solver": "newton"}
    parts, whole = parts_of(sl.AdditiveClassifier(**how), X, y, [0, 2000, 4000])
    proved = parts[0].merge(parts[1]).fit(X, y)
    assert proved.certificate_.converged
    assert proved.n_passes_ <= whole.n_passes_


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"C": 2}, r"C=2 in model 1, 1 in model 0; merge fits of the same problem"),
        ({"degree": 2}, "degree=2 in model 1, 1 in model 0"),
        ({"penalty_order": 2}, "penalty_order=2 in model 1, 1 in model 0"),
        ({"intercept_scaling": 3.0}, "intercept_scaling=3.0 in model 1, 1.0 in model 0"),
        ({"loss": "squared_hinge"}, "the loss of model 1: SquaredHinge.*of model 0: LogLoss"),
        ({"class_weight": {1: 2.0}}, "class_weight={1: 2.0} in model 1, None in model 0"),
        ({"class_weight": "balanced"}, "class_weight='balanced', which weighs.*give a dict"),
        ({"calibration": "sigmoid"}, "calibration='sigmoid', which is of decisions before"),
        ({"covariance": False}, "model 1 does not know the covariance.*covariance=True"),
        ({"C": None, "smoothness": "gcv"}, "criterion of the smoothness of model 1: 'gcv'"),
        ({"warm_start": False, "n_bases": 7}, r"other breakpoints.*\['x0', 'x1'.*warm_start=True"),
        ({"early_stopping": True}, "early_stopping=True, which ends before the optimum"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_differs_is_refused_by_name(changes, message):
    X, y = table(800)
    first = sl.AdditiveClassifier(C=1, n_bases=6, covariance=True, warm_start=True).fit(X, y)
    more = {"validation": 0.2} if "early_stopping" in changes else {}
    warm = {} if "loss" in changes else {"warm_start": True}
    fresh = not warm or "degree" in changes or "warm_start" in changes or more
    second = sl.AdditiveClassifier() if fresh else deepcopy(first)
    how = {**first.get_params(), **warm, **changes}
    if fresh:
        how["warm_start"] = False
    second.set_params(**how).fit(X[200:], y[200:], **more)
    with pytest.raises(ValueError, match=message):
        first.merge(second)


def test_other_columns_classes_levels_and_kinds_are_refused():
    X, y = table(600)
    how = {"C": 1, "n_bases": 6, "covariance": True}
    first = sl.AdditiveClassifier(**how).fit(X, y)
    with pytest.raises(ValueError, match="got no other model"):
        first.merge()
    with pytest.raises(ValueError, match="model 1 is a AdditiveRegressor, model 0 a"):
        first.merge(sl.AdditiveRegressor(**how).fit(X, y))
    with pytest.raises(ValueError, match="the columns of model 1"):
        first.merge(sl.AdditiveClassifier(**how).fit(pd.DataFrame(X, columns=list("abcde")), y))
    with pytest.raises(ValueError, match=r"the classes of model 1: \[1, 2\]"):
        first.merge(sl.AdditiveClassifier(**how).fit(X, y + 1))
    frame, z = mixed()
    words = sl.AdditiveRegressor(**how).fit(frame, z)
    others = sl.AdditiveRegressor(**how).fit(frame.assign(word="x" + frame["word"]), z)
    with pytest.raises(ValueError, match="the levels of model 1"):
        words.merge(others)
    pairs = sl.AdditiveClassifier(C=1, n_bases=6, interactions=[(0, 1)]).fit(X, y)
    with pytest.raises(ValueError, match="has 1 interactions, from which each fit took what is"):
        first.merge(pairs)
    stream = sl.AdditiveClassifier(n_bases=6).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="does not know the covariance"):
        first.merge(stream)
    short = deepcopy(first)
    short.certificate_ = replace(short.certificate_, converged=False, reason="max_passes: 3 reads")
    with pytest.raises(
        ValueError, match=r"model 1 stopped short.*\(max_passes: 3.*raise max_passes"
    ):
        first.merge(short)
    old = deepcopy(first)
    old._mean_of_targets = None
    with pytest.raises(ValueError, match="file of an older version"):
        first.merge(old)


def test_a_column_of_few_values_in_one_part_and_many_in_another_has_bars():
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    X[:300, 0] = np.floor(5 * X[:300, 0]) / 4
    y = X.sum(axis=1)
    model = sl.AdditiveRegressor(C=10, n_bases=6, covariance=True, warm_start=True)
    parts, whole = parts_of(model, X, y, [0, 300, 600])
    assert [len(part.densities_[0].share) for part in (*parts, whole)] == [5, 32, 32]
    for a, b in (parts, parts[::-1]):
        merged = a.merge(b)
        density, expected = merged.densities_[0], whole.densities_[0]
        np.testing.assert_array_equal(density.at, expected.at)
        np.testing.assert_allclose(density.share.sum(), 1, atol=1e-12)
        # values on an edge may be counted to either side of it
        gap = np.cumsum(density.share) - np.cumsum(expected.share)
        assert np.sort(np.abs(gap))[-5] < 0.01
        np.testing.assert_allclose(merged.term_importances_, whole.term_importances_, rtol=0.02)
        np.testing.assert_allclose(merged.predict(X), whole.predict(X), rtol=0, atol=1e-6)
