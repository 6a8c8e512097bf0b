"""Bars of single rows: their ends are the running sums of `explain`, the last is the decision."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from additive_kit import mixed, table
from matplotlib.colors import to_rgba

import streamlearn as sl
from streamlearn.estimator.colours import NEGATIVE, POSITIVE


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def check_sums(display, model, X, decisions, classes=None):
    """Every bar is where the running sum of `explain` puts it, as drawn and as told."""
    terms = np.asarray(model.explain(X))
    terms = terms.reshape(len(terms), terms.shape[1], -1)
    for i, (row, panel) in enumerate(zip(display.rows, display.axes_, strict=True)):
        k = 0 if classes is None else classes[i]
        own = terms[i, :, k]
        largest_first = own[np.argsort(-np.abs(own), kind="stable")]
        sums = model.intercept_[k] + np.cumsum(largest_first)
        n_named = len(row.sizes) - ("other terms" in row.labels[-1])
        np.testing.assert_allclose(row.ends[:n_named], sums[:n_named], rtol=0, atol=1e-12)
        np.testing.assert_allclose(row.ends[-1], decisions[i], rtol=1e-12, atol=1e-12)
        bars = panel.containers[0]
        starts = [model.intercept_[k], *row.ends[:-1]]
        for bar, start, end in zip(bars, starts, row.ends, strict=True):
            span = sorted([bar.get_x(), bar.get_x() + bar.get_width()])
            np.testing.assert_allclose(span, sorted([start, end]), rtol=0, atol=1e-12)
            assert bar.get_facecolor() == to_rgba(POSITIVE if end >= start else NEGATIVE)


def test_every_kind_of_term_is_named_with_its_value():
    X, y = mixed(500)
    model = sl.AdditiveClassifier(n_bases=8, interactions=[("many", "few")])
    model.fit(X, y > np.median(y))
    rows = pd.DataFrame(
        {
            "many": [0.25, 0.875],
            "few": [1.0, 2.0],
            "word": ["red", "unheard"],
            "gaps": [np.nan, 0.5],
            "flat": [7.0, 7.0],
        }
    )
    display = sl.WaterfallDisplay.from_estimator(model, rows)
    assert sorted(display.rows[0].labels) == [
        "few = 1",
        "gaps = missing",
        "many & few = 0.25, 1",
        "many = 0.25",
        "word = red",
    ]  # a constant column adds nothing and is not there
    assert sorted(display.rows[1].labels)[-1] == "word = other or missing"
    check_sums(display, model, rows, model.decision_function(rows))
    ticks = [text.get_text() for text in display.axes_[0].get_yticklabels()]
    assert ticks == display.rows[0].labels
    assert display.axes_[0].get_xlabel() == "log-odds of True"
    assert display.axes_[0].yaxis_inverted()  # the first bar is on top


@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
def test_small_terms_share_a_bar_that_counts_them(layout):
    X, y = table()
    model = sl.AdditiveClassifier(n_bases=6, degree=2).fit(layout(X), y)
    rows = X[:5]
    display = sl.WaterfallDisplay.from_estimator(model, layout(rows), n_terms=2)
    for row in display.rows:
        assert len(row.labels) == 3
        assert row.labels[-1] == "2 other terms"
    check_sums(display, model, layout(rows), model.decision_function(layout(rows)))
    # a bar for one term is named after it
    display = sl.WaterfallDisplay.from_estimator(model, layout(rows), n_terms=3)
    assert all(" = " in label for row in display.rows for label in row.labels)


@pytest.mark.parametrize(
    "parameters",
    [{"loss": "poisson", "exposure": 4}, {"loss": "gamma", "offset": 4}, {"offset": 4}, {}],
)
def test_exposures_and_offsets_are_terms(parameters):
    X, _ = table()
    X = X.copy()
    X[:, 4] = np.random.default_rng(3).uniform(0.5, 2.0, len(X))
    y = np.round(5 * X[:, 4] * np.exp(X[:, 0])) + 1
    model = sl.AdditiveRegressor(n_bases=6, **parameters).fit(X, y)
    display = sl.WaterfallDisplay.from_estimator(model, X[:3])
    decision = model.predict(X[:3])
    decision = np.log(decision) if "loss" in parameters else decision
    check_sums(display, model, X[:3], decision)
    assert f"x4 = {X[0, 4]:.4g}" in display.rows[0].labels
    logs = "loss" in parameters
    unit = display.axes_[0].get_xlabel()
    assert unit == ("logarithm of the mean" if logs else "units of the target")


def test_the_class_is_the_largest_or_the_one_that_is_named(tmp_path):
    X, y = table(n_classes=3)
    names = np.array(["low", "middle", "high"])
    model = sl.AdditiveClassifier(n_bases=6).fit(X, names[y])
    rows = X[:4]
    decisions = model.decision_function(rows)
    largest = decisions.argmax(axis=1)
    display = sl.WaterfallDisplay.from_estimator(model, rows)
    check_sums(display, model, rows, decisions[np.arange(4), largest], largest)
    assert display.rows[1].title == f"row 1, class {model.predict(rows)[1]}"
    display = sl.WaterfallDisplay.from_estimator(model, rows, label="middle")
    k = model.classes_.tolist().index("middle")
    check_sums(display, model, rows, decisions[:, k], [k] * 4)
    with pytest.raises(ValueError, match="label='none' is to be one of"):
        sl.WaterfallDisplay.from_estimator(model, rows, label="none")
    with pytest.raises(ValueError, match="one decision"):
        sl.WaterfallDisplay.from_estimator(
            sl.AdditiveRegressor(n_bases=6).fit(X, y), rows, label="low"
        )


def test_files_axes_and_bad_choices(tmp_path):
    import matplotlib.pyplot as plt

    X, y = mixed(500)
    model = sl.AdditiveRegressor(n_bases=8).fit(X, y)
    X[:3].to_parquet(tmp_path / "rows.parquet")
    X.to_parquet(tmp_path / "all.parquet")
    _, axes = plt.subplots(3)
    display = sl.WaterfallDisplay.from_estimator(model, tmp_path / "rows.parquet", ax=axes)
    assert display.figure_ is axes[0].figure
    check_sums(display, model, X[:3], model.predict(X[:3]))
    lazy = dd.from_pandas(X[:3], npartitions=2)
    display = sl.WaterfallDisplay.from_estimator(model, lazy)
    check_sums(display, model, X[:3], model.predict(X[:3]))
    chosen = sl.open_dataset(tmp_path / "all.parquet", filters=[("many", "<", 0.003)])
    display = sl.WaterfallDisplay.from_estimator(model, chosen)
    at = np.flatnonzero(X["many"] < 0.003)
    assert [row.title for row in display.rows] == [f"row {i}" for i in at]
    check_sums(display, model, X.iloc[at], model.predict(X.iloc[at]))
    for bad, error, match in (
        ({"X": X}, ValueError, "more than 12 rows"),
        ({"X": tmp_path / "all.parquet"}, ValueError, "more than 12 rows"),
        ({"X": dd.from_pandas(X, npartitions=3)}, ValueError, "more than 12 rows"),
        ({"X": X[:0]}, ValueError, "0 sample|no rows"),
        ({"X": X[:2], "ax": axes}, ValueError, "3 axes for 2 rows"),
        ({"X": X[:2], "n_terms": 0}, ValueError, "n_terms=0"),
        ({"X": X, "rows": range(13)}, ValueError, "more than 12 rows"),
        ({"X": X, "rows": [3, 500, 501]}, ValueError, r"no rows of the numbers \[500, 501\]"),
        ({"X": X, "rows": []}, ValueError, r"rows=\[\] must be numbers of rows"),
        ({"X": X, "rows": [-1]}, ValueError, r"rows=\[-1\] must be numbers"),
        ({"X": X, "rows": [0.5]}, ValueError, r"rows=\[0.5\] must be numbers"),
    ):
        with pytest.raises(error, match=match):
            sl.WaterfallDisplay.from_estimator(model, **bad)


def test_rows_are_chosen_by_their_numbers(tmp_path):
    X, y = mixed(500)
    model = sl.AdditiveRegressor(n_bases=8).fit(X, y)
    X.to_parquet(tmp_path / "all.parquet", row_group_size=90)
    for data in (X, tmp_path / "all.parquet", dd.from_pandas(X, npartitions=3)):
        display = sl.WaterfallDisplay.from_estimator(model, data, rows=[401, 17, 5, 17])
        assert [row.number for row in display.rows] == [5, 17, 401]
        assert [row.title for row in display.rows] == ["row 5", "row 17", "row 401"]
        chosen = X.iloc[[5, 17, 401]]
        check_sums(display, model, chosen, model.predict(chosen))


def test_panels_are_as_wide_as_their_names_and_no_row_of_them_is_left_almost_empty():
    X, y = mixed(500)
    model = sl.AdditiveRegressor(n_bases=8).fit(X, y)
    long = X.rename(columns={name: f"{name}, a column of a long name" for name in X})
    wordy = sl.AdditiveRegressor(n_bases=8).fit(long, y)
    for n, n_wide, n_wide_of_long in ((1, 1, 1), (3, 3, 2), (4, 2, 2), (5, 3, 2), (7, 3, 2)):
        for each, rows, expected in ((model, X[:n], n_wide), (wordy, long[:n], n_wide_of_long)):
            display = sl.WaterfallDisplay.from_estimator(each, rows)
            display.figure_.canvas.draw()
            ends = [panel.get_position() for panel in display.axes_]
            assert len({round(end.x0, 3) for end in ends}) == expected
            width = display.figure_.get_figwidth()
            assert width <= 15
            # the bars have room beside the names
            assert all(end.width * width > 2.5 for end in ends)
            edge = display.figure_.bbox
            titles = [panel.title.get_window_extent() for panel in display.axes_]
            assert all(edge.x0 <= box.x0 and box.x1 <= edge.x1 for box in titles)
