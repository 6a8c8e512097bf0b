"""Pictures hold what the model says."""

import numpy as np
import pytest
from mixture_kit import fit, table

import streamlearn as sl

plt = pytest.importorskip("matplotlib.pyplot")


def test_the_map_of_two_columns():
    X, y, _ = table(150, p=2)
    model = fit(X, y, n_components=3, gate="linear", nu=1.0, max_passes=3, tol=1e-3)
    display = sl.MixtureDisplay.from_estimator(model, X, y)
    xs, ys = display.grid
    point = np.array([[xs[7], ys[11]]])
    assert display.region[11, 7] == model.gate_probabilities(point).argmax()
    assert model.classes_[display.answer[11, 7]] == model.predict(point)[0]
    numbers = {text.get_text() for text in display.ax_.texts}
    assert numbers == {str(j) for j in np.unique(display.region)}
    plt.close(display.figure_)


def test_weights_of_more_columns():
    X, y, _ = table(150, p=4)
    model = fit(X, y, n_components=3, gate="linear", nu=1.0, max_passes=3, tol=1e-3)
    display = sl.MixtureDisplay.from_estimator(model)
    assert display.weights.shape == (model.n_components_, 4)
    assert len(display.ax_.get_yticks()) == model.n_components_
    plt.close(display.figure_)
    with pytest.raises(ValueError, match="map of 2 columns; this model has 4"):
        sl.MixtureDisplay.from_estimator(model, X)
