"""Panels show the learned curves: what is drawn is what `shape_function` says."""

import numpy as np
import pandas as pd
import pytest

import streamlearn as sl

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
    assert display.by_value == [False, True, False]
    for d in (0, 2):
        drawn = display.axes_[d].lines[0].get_ydata()
        np.testing.assert_array_equal(drawn, model.shape_function(d, display.grids[d]))
    heights = [bar.get_height() for bar in display.axes_[1].containers[0]]
    np.testing.assert_array_equal(heights, model.shape_function(1, [0, 1, 2, 3]))


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
    tall = np.array([bar.get_height() for bar in axis.containers[1]])
    np.testing.assert_allclose(tall / tall.max(), expected / expected.max())


def test_bars_of_several_classes_stand_side_by_side():
    X, y = rows(n_classes=3)
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y)
    axis = sl.AdditiveDisplay.from_estimator(model, features=[1]).axes_[0]
    curve = model.shape_function(1, np.arange(4.0))
    for k in range(3):
        heights = [bar.get_height() for bar in axis.containers[k]]
        np.testing.assert_array_equal(heights, curve[:, k])
    assert [t.get_text() for t in axis.get_xticklabels()] == ["0", "1", "2", "3"]


def test_one_line_a_class():
    X, y = rows(n_classes=3)
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y)
    display = sl.AdditiveDisplay.from_estimator(model, features=[0])
    assert display.curves[0].shape == (200, 3)
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
