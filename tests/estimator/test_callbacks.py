"""scikit-learn's callbacks are told of the fit and of each record, where there are any."""

import numpy as np
import pytest
from estimator.ridge import RidgeRegressor
from sklearn.base import clone

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")


class Listener:
    def __init__(self):
        self.heard = []

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self.heard.append((f"end {context.task_name}", metadata))


def rows():
    X = np.random.default_rng(0).random((50, 2))
    return X, X[:, 0] + 1


def test_a_fit_tells_its_records():
    listener = Listener()
    model = clone(RidgeRegressor()).set_callbacks(listener).fit(*rows())
    heard = listener.heard
    assert heard[:2] == ["setup", "begin fit"]
    assert heard[-2:] == [("end fit", None), "teardown"]
    assert [what[1] for what in heard if what[0] == "end record"] == model.history_
    assert not hasattr(model, "_callback_fit_ctx")


def test_a_fit_that_fails_ends_its_callbacks():
    listener = Listener()
    with pytest.raises(ValueError, match="'x0' holds 5 NaN"):
        RidgeRegressor().set_callbacks(listener).fit(np.full((5, 1), np.nan), np.zeros(5))
    assert listener.heard[-1] == "teardown"
