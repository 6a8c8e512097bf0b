"""Edited terms: the values that were asked for, 0 on average, and nothing else changed."""

import numpy as np
import pytest
from additive_kit import mixed, table

import streamlearn as sl
from streamlearn.additive.inspect.figures import figures_of


def arrays_of(model):
    return {
        name: value.copy() for name, value in vars(model).items() if isinstance(value, np.ndarray)
    }


@pytest.fixture(scope="module")
def fitted():
    X, y = mixed()
    return sl.AdditiveRegressor(C=10, n_bases=12).fit(X, y), X


def check_only(before, after, X, terms, atol=1e-9):
    """Means of all terms are as near 0 as they were; other terms have the same bits."""
    old, new = before.explain(X), after.explain(X)
    others = [d for d in range(old.shape[1]) if d not in terms]
    np.testing.assert_array_equal(new[:, others], old[:, others])
    # the summary's bins hold the mean of a curve to their width
    np.testing.assert_allclose(new.mean(axis=0), 0, atol=0.02)
    # but the means of the functions, as the fit knew them, hold it exactly
    first, p = after.bases_.first, X.shape[1]
    for d in range(p):
        own = slice(*first[d : d + 2])
        mean = after.coef_[0, own] @ after._means[own]
        assert abs(mean) < 1e-12 * max(np.abs(after.coef_[0, own]).max(initial=0), 1)
    total = new.sum(axis=1) + after.intercept_[0]
    np.testing.assert_allclose(total, after.predict(X), rtol=0, atol=1e-12)


def test_an_interval_has_the_value_and_the_rest_its_own(fitted):
    model, X = fitted
    kept = arrays_of(model)
    low, high = model.knots_[0][[3, 6]]
    edited = model.edit("many", [low, high], 0.25)
    change = edited.predict(X) - model.predict(X)
    inside = X["many"].between(low, high).to_numpy()
    old = model.explain(X)[:, 0]
    np.testing.assert_allclose(change[inside], 0.25 - old[inside], rtol=0, atol=1e-6)
    away = ~X["many"].between(*model.knots_[0][[2, 7]]).to_numpy()
    assert away.any()
    np.testing.assert_allclose(change[away], 0, rtol=0, atol=1e-12)
    check_only(model, edited, X, [0])
    (record,) = edited.edits_
    assert record["term"] == "many"
    assert record["where"] == f"{low:.6g} to {high:.6g}"
    assert record["points"] == 4
    np.testing.assert_allclose(record["after"], 0.25)
    knots = model.knots_[0]
    curve = model.shape_function("many", knots)
    np.testing.assert_allclose(record["before"], [curve[3:7].min(), curve[3:7].max()])
    assert record["error"] < 1e-12
    assert record["outside"] == 0  # both ends are breakpoints
    moved = edited.intercept_[0] - model.intercept_[0]
    assert record["intercept"] == pytest.approx(moved, rel=1e-12)
    expected = np.where(np.isin(np.arange(len(knots)), [3, 4, 5, 6]), 0.25, curve) - moved
    np.testing.assert_allclose(edited.shape_function("many", knots), expected, atol=1e-12)
    # importances are the mean sizes of the terms
    sizes = np.abs(edited.explain(X)).mean(axis=0)
    np.testing.assert_allclose(edited.term_importances_, sizes, rtol=0.03, atol=1e-9)
    # the model itself is as it was
    assert model.edits_ == []
    assert model.certificate_.converged
    for name, value in arrays_of(model).items():
        np.testing.assert_array_equal(value, kept[name])


def test_broken_lines_between_any_points(fitted):
    model, X = fitted
    x, values = [0.213, 0.777], [1.0, -1.0]
    edited = model.edit(0, x, values)
    grid = np.linspace(*x, 50)
    moved = edited.intercept_ - model.intercept_
    expected = np.interp(grid, x, values) - moved
    np.testing.assert_allclose(edited.shape_function(0, grid), expected, atol=1e-5)
    assert edited.edits_[0]["outside"] > 0  # ends are between breakpoints, which moved
    check_only(model, edited, X, [0])
    # a corner between breakpoints is none that a broken line at breakpoints has
    knots = model.knots_[0]
    corner = [knots[3], 0.5 * (knots[3] + knots[4]), knots[4]]
    with pytest.raises(ValueError, match=r"'many' cannot have these values.*tolerance=0.001"):
        model.edit("many", corner, [0.0, 5.0, 0.0])
    near = model.edit("many", corner, [0.0, 5.0, 0.0], tolerance=1.0)
    # least squares at knots 3 and 4 and between them: all three 5/3 for (1, 0), (1/2, 1/2), (0, 1)
    phi = np.array([[1, 0], [0.5, 0.5], [0, 1]])
    best = phi @ np.linalg.lstsq(phi, np.array([0.0, 5.0, 0.0]), rcond=None)[0]
    assert near.edits_[0]["error"] == pytest.approx(np.abs(best - [0, 5, 0]).max(), rel=1e-5)


@pytest.mark.parametrize("degree", [2, 3])
def test_smooth_splines_are_flattened_exactly_and_lines_with_their_error(degree):
    X, y = mixed()
    model = sl.AdditiveRegressor(C=10, n_bases=12, degree=degree).fit(X, y)
    flat = model.edit("many", [0.3, 0.7], 0.5)
    grid = np.linspace(0.3, 0.7, 80)
    moved = (flat.intercept_ - model.intercept_)[0]
    np.testing.assert_allclose(flat.shape_function("many", grid), 0.5 - moved, atol=1e-5)
    check_only(model, flat, X, [0])
    gaps = model.edit("gaps", [np.nan], 1.0)  # a level apart, of as many splines as the degree
    is_missing = X["gaps"].isna().to_numpy()
    change = gaps.predict(X) - model.predict(X)
    np.testing.assert_allclose(change[~is_missing], 0, atol=1e-12)
    expected = 1.0 - model.shape_function("gaps", [np.nan])[0]
    np.testing.assert_allclose(change[is_missing], expected, atol=1e-12)
    with pytest.raises(ValueError, match="cannot have these values"):
        model.edit("many", [0.3, 0.5, 0.7], [0.0, 3.0, 0.0])
    bent = model.edit("many", [0.3, 0.5, 0.7], [0.0, 3.0, 0.0], tolerance=1.0)
    grid = np.linspace(0.3, 0.7, 500)
    moved = (bent.intercept_ - model.intercept_)[0]
    got = bent.shape_function("many", grid) + moved
    wanted = np.interp(grid, [0.3, 0.5, 0.7], [0.0, 3.0, 0.0])
    # the error that is told is that of the points asked
    assert np.abs(got - wanted).max() <= 2 * bent.edits_[0]["error"]


def test_levels_values_and_missing_ones_stand_alone(fitted):
    model, X = fitted
    word = model.edit("word", ["red", None], [1.5, -2.0])
    moved = (word.intercept_ - model.intercept_)[0]
    new = word.shape_function("word", ["red", None, "blue", "green"]) + moved
    old = model.shape_function("word", ["red", None, "blue", "green"])
    np.testing.assert_allclose(new, [1.5, -2.0, *old[2:]], atol=1e-12)
    shares = X["word"].value_counts(normalize=True)
    assert moved == pytest.approx(shares["red"] * (1.5 - old[0]), abs=1e-12)  # no row has None
    assert word.edits_[0]["where"] == "'red', other or missing"
    check_only(model, word, X, [2])
    few = model.edit("few", 1, 4.0)
    moved = (few.intercept_ - model.intercept_)[0]
    old = model.shape_function("few", [0, 2])
    np.testing.assert_allclose(few.shape_function("few", [0, 1, 2]) + moved, [old[0], 4, old[1]])
    gaps = model.edit("gaps", [np.nan], 0.0)
    change = gaps.predict(X) - model.predict(X)
    is_missing = X["gaps"].isna().to_numpy()
    np.testing.assert_allclose(change[~is_missing], 0, atol=1e-12)
    expected = -model.shape_function("gaps", [np.nan])[0]
    np.testing.assert_allclose(change[is_missing], expected, atol=1e-12)
    gone = model.edit("gaps")
    np.testing.assert_allclose(gone.explain(X)[:, 3], 0, atol=1e-12)
    assert gone.term_importances_[3] < 1e-12
    assert gone.edits_[0]["where"] == "everywhere"


def test_pairs_change_at_their_points_and_stay_pure():
    X, y = mixed()
    model = sl.AdditiveRegressor(
        C=10, n_bases=8, interactions=[("many", "few"), ("word", "few")]
    ).fit(X, y)
    pair = model.pair_tables_[0]
    at = pair.nodes[0][2], pair.nodes[1][1]
    edited = model.edit(("many", "few"), [[at[0]], [at[1]]], 3.0)
    row = X.iloc[:1].assign(many=at[0], few=at[1])
    change = edited.predict(row) - model.predict(row)
    np.testing.assert_allclose(change, 3.0 - pair.table[2, 1], atol=1e-9)
    check_only(model, edited, X, [0, 1, 5])
    table = edited.pair_tables_[0]
    for axis in (0, 1):
        np.testing.assert_allclose((table.table * table.density).sum(axis=axis), 0, atol=1e-12)
    gone = model.edit(("few", "many"))
    np.testing.assert_allclose(gone.explain(X)[:, 5], 0, atol=1e-12)
    np.testing.assert_allclose(gone.explain(X)[:, :2], model.explain(X)[:, :2], atol=1e-12)
    both = model.edit(("word", "few"), [["red", None], [0, 1]], [1.0, 2.0])
    assert both.edits_[0]["where"] == "at 2 points"
    assert both.edits_[0]["error"] < 1e-12


def test_classes_have_values_of_their_own():
    X, y = table(n_classes=3)
    model = sl.AdditiveClassifier(n_bases=6).fit(X, y)
    knots = model.knots_[0]
    wanted = np.arange(6.0).reshape(2, 3)
    edited = model.edit(0, knots[:2], wanted)
    moved = edited.intercept_ - model.intercept_
    np.testing.assert_allclose(edited.shape_function(0, knots[:2]) + moved, wanted, atol=1e-12)
    np.testing.assert_allclose(edited.edits_[0]["intercept"], moved)
    total = edited.explain(X).sum(axis=1) + edited.intercept_
    np.testing.assert_allclose(total, edited.decision_function(X), atol=1e-12)
    with pytest.raises(ValueError, match=r"shape \(3,\); give one number, or .*\(2, 3\)"):
        model.edit(0, knots[:2], [1.0, 2.0, 3.0])


def test_what_cannot_be_edited_is_refused_by_name(fitted):
    model, X = fitted
    for term, x, values, match in (
        ("flat", [7.0], 1.0, "'flat' was constant"),
        ("none", [7.0], 1.0, "no column 'none'"),
        ("word", ["purple"], 1.0, r"\['purple'\] are no levels of 'word'"),
        ("word", ["red", "red"], 1.0, "a value twice"),
        ("many", [0.1, 0.1], 1.0, "a value twice"),
        ("many", [np.nan], 1.0, "no level of missing values"),
        ("many", [np.inf], 1.0, "infinity"),
        ("many", [], 1.0, "one or more values"),
        ("many", [0.1, 0.2], [1.0], r"shape \(1,\); give one number, or .*\(2,\)"),
        ("many", [0.1, 0.2], np.nan, "finite values"),
        ("many", [0.5, 1.0, 9.0], [0.0, 0.0, 5.0], "cannot have these values"),  # beyond the end
        (("many", "few"), [[0.1], [1]], 1.0, "no pair of this model"),
    ):
        with pytest.raises(ValueError, match=match):
            model.edit(term, x, values)
    for tolerance in (-1.0, np.nan):
        with pytest.raises(ValueError, match=f"tolerance={tolerance}"):
            model.edit("many", [0.1, 0.2], 1.0, tolerance=tolerance)
    beyond = model.edit("many", [0.5, 9.0], 0.0)
    moved = (beyond.intercept_ - model.intercept_)[0]
    np.testing.assert_allclose(beyond.shape_function("many", [0.75, 5.0]) + moved, 0, atol=1e-6)
    cosine = sl.AdditiveRegressor(C=1, basis="cosine").fit(X[["many"]], X["many"])
    with pytest.raises(ValueError, match="use?.*basis='bspline'|basis='bspline'"):
        cosine.edit(0, [0.5], 1.0)
    counts = sl.AdditiveRegressor(loss="poisson", exposure="many").fit(
        X[["many", "few"]].assign(many=X["many"] + 0.1), X["few"]
    )
    with pytest.raises(ValueError, match="offset or exposure"):
        counts.edit("many", [0.5], 1.0)


def test_the_shape_of_a_term_is_held():
    rng = np.random.default_rng(0)
    X = rng.random((500, 2))
    model = sl.AdditiveRegressor(C=10, n_bases=8, monotone={0: 1}, convex={1: 1})
    model.fit(X, X[:, 0] + (X[:, 1] - 0.5) ** 2)
    knots = model.knots_[0]
    curve = model.shape_function(0, knots)
    between = 0.5 * (curve[3] + curve[4])
    fine = model.edit(0, knots[3:5], between)
    assert (np.diff(fine.shape_function(0, knots)) >= -1e-12).all()
    for term, where in ((0, "monotone=1"), (1, "convex=1")):
        with pytest.raises(ValueError, match=f"breaks {where}"):
            model.edit(term, model.knots_[term][3:5], 9.0)
    model.edit(1, model.knots_[1], 4 * (model.knots_[1] - 0.5) ** 2)


def test_nothing_is_claimed_of_an_edited_model(tmp_path):
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    X, y = mixed()
    model = sl.AdditiveRegressor(smoothness="reml", n_bases=8).fit(X, y)
    once = model.edit("many", [0.2, 0.4], 0.0)
    edited = once.edit("word", ["red"], 1.0)
    certificate = edited.certificate_
    assert not certificate.converged
    assert certificate.relative_gap is certificate.primal is certificate.dual is None
    assert certificate.n_passes == model.n_passes_  # what it has cost is true
    said = "nothing to prove: edited after the fit: many (0.2 to 0.4), word (&#x27;red&#x27;)"
    for page in (edited._repr_html_inner(), edited.report()):
        assert said in page
        assert page.count("before that converged") == 1
    assert "edited after the fit" not in model.report()
    assert "edited after the fit" in repr(certificate)
    # bands of edited terms are not known, those of others are what they were
    curve, deviation = edited.shape_function("many", [0.1, 0.3], return_std=True)
    assert np.isfinite(curve).all()
    assert np.isnan(deviation).all()
    expected = model.shape_function("gaps", [0.1, 0.3], return_std=True)[1]
    got = edited.shape_function("gaps", [0.1, 0.3], return_std=True)[1]
    np.testing.assert_array_equal(got, expected)
    for ask in (
        lambda: edited.predict(X, return_std=True),
        lambda: edited.predict_interval(X),
        lambda: edited.predict_to(X, tmp_path / "out", what="deviation"),
    ):
        with pytest.raises(AttributeError, match="many, word was edited after the fit"):
            ask()
    table = edited.summary_table()
    known = dict(zip(table.columns["term"], table.columns["p-value"], strict=True))
    assert [name for name, p in known.items() if np.isnan(p)] == ["many", "word"]
    assert table.facts["edited after the fit"] == "many, word"
    assert "deviance explained" not in table.facts
    assert "nan" in str(table)
    # pictures: no band around an edited curve, and axes that end
    display = sl.AdditiveDisplay.from_estimator(edited)
    many, _, word, gaps = display.axes_
    assert np.isfinite(many.get_ylim()).all()
    assert not many.collections
    assert gaps.collections
    assert len(word.containers) == 2  # bars and densities, no whiskers
    plt.close("all")
    figures = {figure.title: figure for figure in figures_of(edited)[1]}
    assert figures["many"].band is None
    assert figures["gaps"].band is not None


def test_files_hold_the_edits(fitted, tmp_path):
    model, X = fitted
    edited = model.edit("many", [0.2, 0.4], 0.0).edit("word", ["red"], 1.0)
    sl.save(edited, tmp_path / "m.slm")
    loaded = sl.load(tmp_path / "m.slm")
    assert loaded.edits_ == edited.edits_
    assert loaded.certificate_ == edited.certificate_
    np.testing.assert_array_equal(loaded.predict(X), edited.predict(X))
    again = loaded.edit("gaps", [np.nan], 1.0)
    np.testing.assert_array_equal(again.coef_, edited.edit("gaps", [np.nan], 1.0).coef_)
    assert [one["term"] for one in again.edits_] == ["many", "word", "gaps"]
    np.testing.assert_allclose(
        [float(sl.to_dict(edited)["intercept"][0])], edited.intercept_, atol=1e-12
    )
    # a file without means of the functions: those of the densities
    bare = sl.load(tmp_path / "m.slm")
    bare._means = None
    near, exact = (one.edit("many", [0.5, 0.9], 3.0) for one in (bare, edited))
    np.testing.assert_allclose(near.predict(X), exact.predict(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(near.intercept_, exact.intercept_, atol=0.05)


def test_fits_after_an_edit_forget_it_or_are_refused(tmp_path):
    X, y = table()
    model = sl.AdditiveClassifier(n_bases=6, C=1.0, warm_start=True, tol=1e-6).fit(X, y)
    optimum = model.decision_function(X)
    edited = model.edit(0, [0.2, 0.6], 3.0)
    assert np.abs(edited.decision_function(X) - optimum).max() > 1
    edited.fit(X, y)  # begins at the edited curves, ends at the optimum
    assert edited.edits_ == []
    assert edited.certificate_.relative_gap <= 1e-6
    np.testing.assert_allclose(edited.decision_function(X), optimum, atol=0.02)

    plain = sl.AdditiveClassifier(n_bases=6, C=1.0).fit(X, y, checkpoint=tmp_path / "fit")
    edited = plain.edit(0, [0.2, 0.6], 3.0)
    edited.fit(X, y, checkpoint=tmp_path / "fit")  # the model of the checkpoint, without a read
    assert edited.edits_ == []
    np.testing.assert_array_equal(edited.decision_function(X), plain.decision_function(X))

    stream = sl.AdditiveClassifier(n_bases=6, loss="log_loss").partial_fit(X, y, classes=[0, 1])
    edited = stream.edit(0, [0.2, 0.6], 3.0)
    with pytest.raises(ValueError, match=r"partial_fit goes on.*edited after that: x0 \(0.2 to"):
        edited.partial_fit(X, y)
    sl.save(edited, tmp_path / "m.slm")
    with pytest.raises(ValueError, match="partial_fit goes on"):
        sl.load(tmp_path / "m.slm").partial_fit(X, y)
    before = stream.decision_function(X)
    stream.partial_fit(X, y)  # the model before the edit goes on
    assert np.abs(stream.decision_function(X) - before).max() > 0


def test_choices_by_splits_are_edited_too():
    X, y = table()
    model = sl.AdditiveRegressorCV(Cs=[0.1, 1.0], n_bases=6, cv=2).fit(X, X[:, 0] + y)
    edited = model.edit(0, [0.2, 0.6], 3.0)
    assert edited.C_ == model.C_
    check_only(model, edited, X, [0])
