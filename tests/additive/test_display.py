"""Panels show the learned curves: what is drawn is what `shape_function` says."""

import numpy as np
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
    for d, (axis, grid) in enumerate(zip(display.axes_, display.grids, strict=True)):
        np.testing.assert_array_equal(axis.lines[0].get_ydata(), model.shape_function(d, grid))
    np.testing.assert_array_equal(display.grids[1], [0, 1, 2, 3])


def test_one_line_a_class():
    X, y = rows(n_classes=3)
    model = sl.AdditiveClassifier(n_bases=8).fit(X, y)
    display = sl.AdditiveDisplay.from_estimator(model, features=[0])
    assert display.curves[0].shape == (200, 3)
    assert [t.get_text() for t in display.axes_[0].get_legend().get_texts()] == ["0", "1", "2"]


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
