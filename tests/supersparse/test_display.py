"""What is drawn is what was fitted."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import streamlearn as sl

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(200, noise=0.15, random_state=0)


@pytest.fixture(scope="module")
def model(moons):
    return sl.SuperSparseClassifier(4, loss="squared_error").fit(*moons)


def test_bars_are_the_prototypes_sorted_by_coefficient(model):
    display = sl.PrototypeDisplay.from_estimator(model)
    assert (np.diff(display.coefficients) <= 0).all()
    assert sorted(display.coefficients) == sorted(model.coef_[0])
    for axis, z, beta in zip(display.axes_, display.prototypes, display.coefficients, strict=True):
        np.testing.assert_allclose([bar.get_width() for bar in axis.patches], z)
        assert axis.get_title() == f"{beta:+.3g}"


def test_images(model):
    display = sl.PrototypeDisplay.from_estimator(model, shape=(1, 2))
    np.testing.assert_array_equal(
        display.axes_[0].images[0].get_array(), display.prototypes[0].reshape(1, 2)
    )
    wider = sl.PrototypeDisplay.from_estimator(
        model, shape=(2, 2), decode=lambda Z: np.hstack([Z, Z])
    )
    assert wider.prototypes.shape == (4, 4)


def test_plane_and_curve(model, moons):
    ax = sl.PrototypeDisplay.plane(model, *moons)
    shown = np.vstack([c.get_offsets() for c in ax.collections[-2:]])
    np.testing.assert_allclose(np.sort(shown, axis=0), np.sort(model.prototypes_, axis=0))
    chosen = sl.SuperSparseClassifierCV((1, 2), cv=2, loss="squared_error").fit(*moons)
    ax = sl.PrototypeDisplay.curve(chosen)
    mean = chosen.curve_.loss.mean(axis=1)
    np.testing.assert_allclose(ax.lines[2].get_ydata(), mean)


def test_bad_requests_are_named(model, moons):
    import matplotlib.pyplot as plt

    with pytest.raises(ValueError, match=r"shape=\(3, 3\) holds 9"):
        sl.PrototypeDisplay.from_estimator(model, shape=(3, 3))
    with pytest.raises(ValueError, match="1 axes for 4"):
        sl.PrototypeDisplay.from_estimator(model, ax=plt.subplots()[1])
    with pytest.raises(ValueError, match="decode returned"):
        sl.PrototypeDisplay.from_estimator(model, decode=lambda Z: Z[0])
    with pytest.raises(TypeError, match="CV for a curve"):
        sl.PrototypeDisplay.curve(model)
    with pytest.raises(ValueError, match="2 columns"):
        sl.PrototypeDisplay.plane(model, moons[0][:, :1])
    with pytest.raises(TypeError, match="rows in memory"):
        sl.PrototypeDisplay.plane(model, sl.open_dataset(moons[0]))
