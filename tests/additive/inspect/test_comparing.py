"""Curves of two models together, and the distances of their terms by closed forms."""

import numpy as np
import pandas as pd
import pytest
from additive_kit import table

import streamlearn as sl


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def mixed(n=800, seed=0, words=("red", "green", "blue")):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "many": rng.random(n),
            "few": np.floor(3 * rng.random(n)),
            "word": np.array(words, object)[rng.integers(0, len(words), n)],
            "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.random(n)),
            "flat": np.full(n, 7.0),
        }
    )
    f = frame["few"] + (frame["word"] == "red") + frame["gaps"].fillna(2.0)
    return frame, f + 2 * (frame["many"] > 0.5) * (frame["few"] == 1)


def column(display, name):
    columns = display.distances_.columns
    return {key: columns[key][columns["term"].index(name)] for key in columns}


def test_distances_are_those_over_the_rows():
    X, y = mixed()
    first = sl.AdditiveRegressor(C=10, n_bases=12).fit(X, y + 3 * X["many"])
    second = sl.AdditiveRegressor(C=0.1, n_bases=7).fit(X, y + 1)
    display = sl.AdditiveDisplay.compare(first, second, labels=("old", "new"))
    f, g = first.explain(X), second.explain(X)
    for d, name in enumerate(["many", "few", "word", "gaps"]):
        row = column(display, name)
        for key, values in (
            ("distance", f - g),
            ("size, first", f),
            ("size, second", g),
        ):
            # of words, of few values and of missing ones the density is exact
            rtol = 1e-9 if name in ("few", "word") else 0.03
            expected = np.sqrt((values[:, d] ** 2).mean())
            np.testing.assert_allclose(row[key], expected, rtol=rtol, atol=1e-9)
    found = display.distances_.columns["distance"]
    assert found == sorted(found, reverse=True)
    assert display.distances_.columns["term"][0] == "many"
    gap = display.distances_.facts["distance of the intercepts"]
    assert gap == pytest.approx(abs(first.intercept_[0] - second.intercept_[0]))
    assert "many" in str(display.distances_)
    # what is drawn is what both say
    assert display.names == ["many", "few", "word", "gaps"]
    for d, name in enumerate(["many", "few"]):
        lines = display.axes_[d].lines
        for line, model in zip(lines, (first, second), strict=False):
            expected = model.shape_function(name, line.get_xdata())
            np.testing.assert_array_equal(line.get_ydata(), expected)
    legend = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
    assert legend == ["old", "new"]


def test_a_model_is_as_far_from_itself_edited_as_the_edit():
    X, y = mixed()
    model = sl.AdditiveRegressor(C=10, n_bases=12).fit(X, y)
    assert max(sl.AdditiveDisplay.compare(model, model).distances_.columns["distance"]) == 0
    edited = model.edit("word", ["red"], model.shape_function("word", ["red"]) + 1.0)
    share = (X["word"] == "red").mean()  # its distance is the deviation of the change
    display = sl.AdditiveDisplay.compare(model, edited)
    expected = np.sqrt(share * (1 - share))
    assert column(display, "word")["distance"] == pytest.approx(expected, rel=1e-9)
    assert sum(np.array(display.distances_.columns["distance"]) > 1e-12) == 1
    assert display.distances_.facts["distance of the intercepts"] == pytest.approx(share)


def test_words_and_missing_values_that_one_model_knows():
    X, y = mixed()
    other, z = mixed(seed=1, words=("red", "white"))
    other["gaps"] = other["gaps"].fillna(0.5)
    first = sl.AdditiveRegressor(C=10, n_bases=8).fit(X, y)
    second = sl.AdditiveRegressor(C=10, n_bases=8).fit(other, z)
    display = sl.AdditiveDisplay.compare(first, second, features=["word", "gaps"])
    words = [*first.levels_["word"], "white"]
    ticks = [text.get_text() for text in display.axes_[0].get_xticklabels()]
    assert ticks == [*words, "other"]
    for k, model in enumerate((first, second)):
        heights = [bar.get_height() for bar in display.axes_[0].containers[k]]
        np.testing.assert_array_equal(heights, model.shape_function("word", [*words, None]))
    values = np.stack([model.shape_function("word", X["word"]) for model in (first, second)])
    expected = np.sqrt(((values[0] - values[1]) ** 2).mean())
    assert column(display, "word")["distance"] == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(display.grids[1]).all()  # the second does not know missing values
    there = X[X["gaps"].notna()]
    gap = first.shape_function("gaps", there["gaps"]) - second.shape_function("gaps", there["gaps"])
    expected = np.sqrt((gap**2).mean())
    assert column(display, "gaps")["distance"] == pytest.approx(expected, rel=0.03)


def test_pairs_and_columns_of_one_model():
    X, y = mixed()
    pair = ("many", "few")
    first = sl.AdditiveRegressor(C=10, n_bases=8, interactions=[pair, ("word", "few")]).fit(X, y)
    second = sl.AdditiveRegressor(C=10, n_bases=8, interactions=[pair]).fit(X, 2 * y)
    display = sl.AdditiveDisplay.compare(first, second)
    tables = [model.pair_tables_[0] for model in (first, second)]
    share = tables[0].density
    gap = (tables[0].table - tables[1].table) ** 2
    expected = np.sqrt((share * gap).sum() / share.sum())
    assert column(display, "many & few")["distance"] == pytest.approx(expected, rel=1e-9)
    alone = column(display, "few & word")
    assert alone["size, second"] == 0
    assert alone["distance"] == alone["size, first"] > 0
    flat = sl.AdditiveRegressor(C=10, n_bases=8).fit(X.assign(many=0.5), y)
    row = column(sl.AdditiveDisplay.compare(flat, second), "many")
    assert row["size, first"] == 0
    assert row["distance"] == row["size, second"] > 0


def test_classes_are_compared_together_and_one_is_drawn():
    X, y = table(n_classes=3)
    first = sl.AdditiveClassifier(n_bases=6).fit(X, y)
    second = sl.AdditiveClassifier(n_bases=6, C=0.01).fit(X, y)
    display = sl.AdditiveDisplay.compare(first, second, of_class=1, features=[2])
    assert display.figure_.get_suptitle() == "class 1"
    for k, model in enumerate((first, second)):
        expected = model.shape_function(2, display.grids[0])[:, 1]
        np.testing.assert_array_equal(display.curves[0][:, k], expected)
    gap = (first.explain(X) - second.explain(X))[:, 2]
    expected = np.sqrt((gap**2).mean())
    assert column(display, "x2")["distance"] == pytest.approx(expected, rel=1e-9)


def test_models_of_other_columns_or_units_are_refused():
    X, y = mixed()
    model = sl.AdditiveRegressor(n_bases=6).fit(X, y)
    for other, match in (
        (sl.AdditiveRegressor(n_bases=6).fit(X[["many", "few"]], y), "the columns of the two"),
        (sl.AdditiveClassifier(n_bases=6).fit(X, y > 1), "the classes of the two"),
        (sl.AdditiveRegressor(n_bases=6, loss="poisson").fit(X, y), "logarithm of the mean"),
        (sl.AdditiveRegressor(n_bases=6).fit(X.assign(word=X["few"]), y), "holds categories for"),
    ):
        with pytest.raises(ValueError, match=match):
            sl.AdditiveDisplay.compare(model, other)
    X, y = table(n_classes=3)
    rest, softmax = (
        sl.AdditiveClassifier(n_bases=4, multi_class=multi_class).fit(X, y)
        for multi_class in ("ovr", "multinomial")
    )
    with pytest.raises(ValueError, match=r"log-odds of the class and .* \(softmax\)"):
        sl.AdditiveDisplay.compare(rest, softmax)

    with pytest.raises(ValueError, match=r"\['flat'\] were constant in both"):
        sl.AdditiveDisplay.compare(model, model, features=["flat"])


def test_columns_that_differ_most_are_drawn():
    X = np.random.default_rng(0).random((300, 14))
    first = sl.AdditiveRegressor(C=10, n_bases=4).fit(X, X.sum(axis=1))
    second = sl.AdditiveRegressor(C=10, n_bases=4).fit(X, X @ np.arange(1.0, 15.0))
    display = sl.AdditiveDisplay.compare(first, second)
    assert display.names == [f"x{d}" for d in range(2, 14)]
    assert display.figure_.get_suptitle() == "the 12 of 14 columns that differ most"
    flat = sl.AdditiveRegressor(n_bases=4).fit(np.ones((30, 2)), np.arange(30.0))
    with pytest.raises(ValueError, match="no curve to draw"):
        sl.AdditiveDisplay.compare(flat, flat)
