"""The picture of a fit shows what its history says."""

import numpy as np
import pytest
from estimator.ridge import RidgeRegressor

import streamlearn as sl

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def rows():
    X = np.random.default_rng(0).random((500, 2))
    return X, np.digitize(X.sum(axis=1), [0.7, 1.3])


def test_newton_and_dual():
    X, y = rows()
    for options in ({"solver": "newton"}, {"loss": "hinge", "tol": 1e-2}):
        model = sl.AdditiveClassifier(n_bases=5, **options).fit(X, y)
        display = sl.ConvergenceDisplay.from_estimator(model)
        gap, objective = display.axes_
        assert gap.get_yscale() == "log"
        assert display.gap[-1] == pytest.approx(model.certificate_.relative_gap)
        assert display.objective[-1] == pytest.approx(model.certificate_.primal.sum())
        assert objective.lines[0].get_ydata()[-1] == display.objective[-1]
        assert len(display.reads) == len(model.history_)


def test_validation_has_a_panel_of_its_own():
    X, y = rows()
    model = sl.AdditiveClassifier(n_bases=5).fit(X, y, validation=0.3)
    display = sl.ConvergenceDisplay.from_estimator(model)
    assert [axis.get_title() for axis in display.axes_][2] == "validation loss"
    with pytest.raises(ValueError, match="1 axes for 3 panels"):
        display.plot(ax=plt.subplots()[1])


def test_a_fit_without_a_gap_in_its_history():
    X, y = rows()
    model = RidgeRegressor().fit(X, y)
    display = sl.ConvergenceDisplay.from_estimator(model)
    assert [axis.get_title() for axis in display.axes_] == ["objective"]
    with pytest.raises(ValueError, match="no history"):
        type(display)([]).plot()


def test_a_fit_of_one_read_says_so():
    X = np.linspace(0, 1, 60)[:, None]
    model = sl.AdditiveRegressor(n_bases=4).fit(X, X[:, 0])
    display = sl.ConvergenceDisplay.from_estimator(model)
    said = [text.get_text() for panel in display.axes_ for text in panel.texts]
    assert said.count("measured once") == len(display.axes_)
    assert "measured once" in model.report()


def test_boosting_is_drawn_by_rounds():
    """One point a round: the mean of the classes' costs, each kept once its rounds have ended."""
    X, y = rows()
    model = sl.JensenShannonBoostClassifier(n_learners=3).fit(X, y)
    display = sl.ConvergenceDisplay.from_estimator(model)
    costs = {}
    for record in model.history_:
        costs.setdefault(record["label"], []).append(record["costs"][-1])
    assert len(costs) == 3
    assert len(display.objective) == max(map(len, costs.values()))
    assert display.objective[0] == pytest.approx(np.mean([own[0] for own in costs.values()]))
    assert display.objective[-1] == pytest.approx(model.certificate_.objective)
