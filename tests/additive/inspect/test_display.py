"""Panels show the learned curves: what is drawn is what `shape_function` says."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import streamlearn as sl
from streamlearn import demo, plotting
from streamlearn.additive.inspect.figures import figures_of
from streamlearn.estimator.report.figures import Curve, Rows

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def rows(n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.random((400, 4))
    X[:, 1] = np.floor(4 * X[:, 1])
    X[:, 3] = 7.0
    return X, np.digitize(np.sin(6 * X[:, 0]) + X[:, 1], np.linspace(0.2, 3, n_classes - 1))


def test_lines_are_the_shape_functions():
    X, y = rows()
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y)
    display = sl.AdditiveDisplay.from_estimator(model)
    assert display.names == ["x0", "x1", "x2"]  # the constant column has no curve
    assert display.categories == [False, False, False]
    for d in range(3):
        drawn = display.axes_[d].lines[0].get_ydata()
        np.testing.assert_array_equal(drawn, model.shape_function(d, display.grids[d]))
        assert set(model.knots_[d]) <= set(display.grids[d])  # a jump is where it is
    np.testing.assert_array_equal(display.grids[1], [0, 1, 2, 3])


def test_grey_bars_are_the_shares_of_the_rows():
    X, y = rows()
    weight = np.arange(len(y)) % 3.0
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y, weight)
    smooth, few, _, constant = model.densities_
    counts, edges = np.histogram(X[:, 0], smooth.at, weights=weight)
    # bins of the summary are spread evenly
    np.testing.assert_allclose(smooth.share, counts / weight.sum(), atol=0.01)
    assert smooth.share.sum() == pytest.approx(1)
    expected = np.bincount(X[:, 1].astype(int), weight) / weight.sum()
    np.testing.assert_allclose(few.share, expected)
    assert len(constant.at) == 0
    axis = sl.AdditiveDisplay.from_estimator(model, features=[1]).axes_[0]
    tall = np.array([bar.get_height() for bar in axis.containers[0]])
    np.testing.assert_allclose(tall / tall.max(), expected / expected.max())
    middles = [bar.get_x() + bar.get_width() / 2 for bar in axis.containers[0]]
    np.testing.assert_allclose(middles, [0, 1, 2, 3])


def test_bars_of_several_classes_stand_side_by_side():
    X, y = rows(n_classes=3)
    words = np.array(["blue", "green", "red", "white"])
    frame = pd.DataFrame({"b": words[X[:, 1].astype(int)]})
    model = sl.AdditiveClassifier(n_bases=8).fit(frame, y)
    axis = sl.AdditiveDisplay.from_estimator(model).axes_[0]
    curve = model.shape_function("b", model.levels_["b"])
    for k in range(3):
        heights = [bar.get_height() for bar in axis.containers[k]]
        np.testing.assert_array_equal(heights[:4], curve[:, k])
    assert [t.get_text() for t in axis.get_xticklabels()] == [*model.levels_["b"], "other"]


def test_one_line_a_class():
    X, y = rows(n_classes=3)
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y)
    display = sl.AdditiveDisplay.from_estimator(model, features=[0])
    assert display.curves[0].shape == (len(display.grids[0]), 3)
    assert [t.get_text() for t in display.axes_[0].get_legend().get_texts()] == ["0", "1", "2"]


def test_categories_have_names_and_missing_values_a_place():
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["b"] = np.array(["red", "green", "blue", None], object)[X[:, 1].astype(int)]
    frame.loc[::5, "c"] = np.nan
    model = sl.AdditiveClassifier(n_bases=8).fit(frame, y)
    display = sl.AdditiveDisplay.from_estimator(model)
    assert display.names == ["a", "b", "c"]
    bars, line = display.axes_[1:]
    ticks = [t.get_text() for t in bars.get_xticklabels()]
    assert ticks == [*model.levels_["b"], "other"]
    heights = [bar.get_height() for bar in bars.containers[0]]
    np.testing.assert_array_equal(heights, model.shape_function("b", [*ticks[:3], None]))
    grey = np.array([bar.get_height() for bar in bars.containers[1]])
    share = frame["b"].value_counts()[model.levels_["b"]].tolist() + [frame["b"].isna().sum()]
    np.testing.assert_allclose(grey / grey.max(), np.array(share) / max(share))
    assert line.lines[1].get_ydata() == model.shape_function("c", [np.nan])
    assert line.lines[1].get_xdata() > np.nanmax(X[:, 2])
    assert model.densities_[2].missing == pytest.approx(0.2)
    assert model.densities_[2].share.sum() == pytest.approx(0.8)


def test_given_axes_and_bad_choices():
    import matplotlib.pyplot as plt

    X, y = rows()
    model = sl.AdditiveRegressor(n_bases=8).fit(X, y)
    _, ax = plt.subplots()
    assert sl.AdditiveDisplay.from_estimator(model, features=[1], ax=ax).figure_ is ax.figure
    with pytest.raises(ValueError, match="1 axes for 2"):
        sl.AdditiveDisplay.from_estimator(model, features=[0, 1], ax=ax)
    with pytest.raises(ValueError, match=r"x3.*constant"):
        sl.AdditiveDisplay.from_estimator(model, features=[3])


def test_axes_say_the_unit_of_the_decision():
    X, y = rows()
    names = {}
    for model in (
        sl.AdditiveClassifier(n_bases=4),
        sl.AdditiveClassifier(n_bases=4, loss="squared_hinge"),
        sl.AdditiveRegressor(n_bases=4),
        sl.AdditiveRegressor(n_bases=4, loss="poisson"),
    ):
        display = sl.AdditiveDisplay.from_estimator(model.fit(X, y))
        names[model.loss] = display.axes_[0].get_ylabel()
        assert [panel.get_ylabel() for panel in display.axes_[1:]] == ["", ""]  # said once a row
    assert names == {
        "log_loss": "log-odds of 1",
        "squared_hinge": "decision for 1",
        "squared_error": "units of the target",
        "poisson": "logarithm of the mean",
    }


def test_terms_that_are_left_out_are_said():
    rng = np.random.default_rng(0)
    X = rng.random((300, 14))
    model = sl.AdditiveRegressor(n_bases=4).fit(X, X.sum(axis=1))
    display = sl.AdditiveDisplay.from_estimator(model)
    assert display.figure_.get_suptitle() == "the 12 largest of 14 terms"
    assert sl.AdditiveDisplay.from_estimator(model, features=[0]).figure_.get_suptitle() == ""


def test_many_classes_are_chosen_or_the_largest_are_drawn():
    X, y = rows(n_classes=13)
    model = sl.AdditiveClassifier(n_bases=4, max_passes=4, tol=0.5).fit(X, y)
    display = sl.AdditiveDisplay.from_estimator(model)
    n = len(model.classes_)
    assert f"10 of {n} classes" in display.figure_.get_suptitle()
    assert display.curves[0].shape[1] == len(display.classes) == 10
    two = model.classes_[[3, 1]].tolist()
    display = sl.AdditiveDisplay.from_estimator(model, classes=two, features=[0])
    expected = model.shape_function(0, display.grids[0])[:, [3, 1]]
    np.testing.assert_array_equal(display.curves[0], expected)
    legend = display.axes_[0].get_legend().get_texts()
    assert [text.get_text() for text in legend] == [str(label) for label in two]
    with pytest.raises(ValueError, match="are to be some of"):
        sl.AdditiveDisplay.from_estimator(model, classes=["none"])
    with pytest.raises(ValueError, match="one curve a column"):
        sl.AdditiveDisplay.from_estimator(sl.AdditiveRegressor().fit(X, y), classes=[0])


def test_a_scale_a_term_on_request():
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    model = sl.AdditiveRegressor(n_bases=4).fit(X, 100 * X[:, 0] + X[:, 1])
    together = sl.AdditiveDisplay.from_estimator(model)
    assert together.axes_[0].get_ylim() == together.axes_[1].get_ylim()
    apart = sl.AdditiveDisplay.from_estimator(model, share_y=False)
    spans = [np.ptp(panel.get_ylim()) for panel in apart.axes_]
    assert spans[0] > 50 * spans[1]


def test_all_levels_are_named_or_their_number_is():
    for n in (20, 60):
        X = pd.DataFrame({"c": [f"level {k % n}" for k in range(600)]})
        model = sl.AdditiveRegressor().fit(X, np.arange(600) % n)
        panel = sl.AdditiveDisplay.from_estimator(model).axes_[0]
        named = len(panel.get_xticks())
        assert named == (21 if n == 20 else 8)  # and one for other words
        assert panel.get_xlabel() == ("" if n == 20 else f"{n + 1} values, {named} of them named")


def kinds_of_columns(n=900):
    """A column of each kind, by name: of numbers many, few, uneven or missing ones, of words."""
    rng = np.random.default_rng(0)
    gaps = rng.random(n) < 0.2
    few = np.floor(4 * rng.random(n))
    words = np.array(["red", "green", "blue"], object)[rng.integers(0, 3, n)]
    columns = {
        "many": rng.random(n),
        "few": few,
        "two": np.floor(2 * rng.random(n)),
        "uneven": rng.choice([0.0, 1.0, 2.0, 1e4], n),
        "hundred": np.floor(100 * rng.random(n)),
        "skewed": np.exp(2 * rng.standard_normal(n)),
        "many or none": np.where(gaps, np.nan, rng.random(n)),
        "few or none": np.where(gaps, np.nan, few),
        "one or none": np.where(gaps, np.nan, 3.0),
        "words": words,
        "words or none": np.where(gaps, None, words),
        "categories": pd.Categorical(words),
    }
    frame = pd.DataFrame(columns)
    return frame, frame["many"] + frame["few"] + (words == "red") + 0.3 * gaps


def has_few_values(name):
    return name.split()[0] in ("few", "two", "uneven", "one")


def of_display(model, monkeypatch, tmp_path):
    return sl.AdditiveDisplay.from_estimator(model, features=list(model.feature_names_in_)).figure_


def of_command(model, monkeypatch, tmp_path):
    """What ``streamlearn plot`` draws."""
    found = {}
    monkeypatch.setattr(plotting, "_write", lambda figure, path: found.setdefault(path, figure))
    plotting.draw_model(model, str(tmp_path), features=list(model.feature_names_in_))
    return found[tmp_path / "terms.png"]


def of_demo(model, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "DRAWN", list(model.feature_names_in_))
    demo.draw(model, tmp_path)
    import matplotlib.pyplot as plt

    return plt.gcf()


MODELS = {
    "one C": lambda: sl.AdditiveRegressor(C=1.0),
    "bands": lambda: sl.AdditiveRegressor(smoothness="reml", n_bases=128),
    "cosine": lambda: sl.AdditiveRegressor(basis="cosine"),
    "classes": lambda: sl.AdditiveClassifier(smoothness="reml", n_bases=8),
    "pairs": lambda: sl.AdditiveRegressor(interactions=[("many", "few")]),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    frame, z = kinds_of_columns()
    model = MODELS[request.param]()
    is_classifier = isinstance(model, sl.AdditiveClassifier)
    return model.fit(frame, np.digitize(z, [1, 3]) if is_classifier else z)


@pytest.mark.parametrize("place", [of_display, of_command, of_demo])
def test_every_picture_draws_numbers_as_lines_and_categories_as_bars(
    fitted, place, monkeypatch, tmp_path
):
    figure = place(fitted, monkeypatch, tmp_path)
    panels = {panel.get_title(): panel for panel in figure.axes}
    K = len(fitted.coef_)
    for d, name in enumerate(fitted.feature_names_in_):
        panel = panels[name]
        lines = [line for line in panel.lines if len(line.get_xdata()) and line.get_zorder() > 1]
        bars = [c for c in panel.containers if not hasattr(c, "has_yerr")]
        if name in fitted.levels_:
            assert len(bars) == K + 1, name  # and the grey ones
            values = [*range(len(fitted.levels_[name])), np.nan]
            heights = np.array([[bar.get_height() for bar in own] for own in bars[:K]]).T
            np.testing.assert_array_equal(heights, fitted._curve(d, values).reshape(-1, K))
            continue
        assert len(bars) == 1, name  # the grey ones
        known = fitted.knots_[d]
        for line in lines[:K]:
            assert line.get_xdata()[[0, -1]].tolist() == known[[0, -1]].tolist(), name
        assert (lines[0].get_marker() == "o") == has_few_values(name), name
        has_bands = hasattr(fitted, "effective_dof_")
        assert (len(panel.collections) > 0) == has_bands, name


def test_the_report_draws_numbers_as_curves_and_categories_as_rows(fitted):
    _, figures = figures_of(fitted)
    assert len(figures) == fitted.n_features_in_
    for figure in figures:
        d = fitted._column(figure.title)
        if figure.title in fitted.levels_:
            assert isinstance(figure, Rows)
            values = [*range(len(fitted.levels_[figure.title])), np.nan]
            check_band(fitted, d, values, figure.y, figure.band)
            continue
        assert isinstance(figure, Curve)
        np.testing.assert_array_equal(
            figure.y, fitted._curve(d, figure.x).reshape(len(figure.x), -1)
        )
        assert (figure.band is not None) == hasattr(fitted, "effective_dof_")
        assert figure.points == has_few_values(figure.title)
        starts, ends, share = figure.density
        assert (starts < ends).all()
        missing = fitted.densities_[d].missing
        assert share.sum() + missing == pytest.approx(1)
        assert (figure.missing is not None) == figure.title.endswith("none")
        if figure.missing is not None:
            check_band(fitted, d, [np.nan], figure.missing, figure.missing_band)


def check_band(model, d, values, y, band):
    """The ends of a band are a standard deviation's 97.5 % quantile from the curve, if known."""
    assert (band is not None) == hasattr(model, "effective_dof_")
    if band is None:
        return
    reach = norm.ppf(0.975) * model._curve_deviation(d, np.array(values)).reshape(np.shape(y))
    assert (reach > 0).all()
    np.testing.assert_allclose(band, [y - reach, y + reach])
