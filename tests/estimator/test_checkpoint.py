"""Checkpoints as a user meets them: finished ones need no read, others' are refused."""

import numpy as np
import pytest
from estimator.ridge import RidgeClassifier, RidgeRegressor

import streamlearn as sl
from streamlearn.errors import CheckpointError

NAMES = ["a", "b", "c"]


def data(parquet, target="z"):
    return sl.open_dataset(parquet, target=target, features=NAMES)


def test_finished_checkpoint_returns_the_model_without_reading(parquet, tmp_path, monkeypatch):
    first = RidgeRegressor().fit(data(parquet), checkpoint=tmp_path / "run")
    monkeypatch.setattr(RidgeRegressor, "_fit", None)  # nothing is trained again
    again = RidgeRegressor().fit(data(parquet), checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(again.coef_, first.coef_)
    assert again.certificate_ == first.certificate_
    assert again.history_ == first.history_
    assert list(again.feature_names_in_) == NAMES


@pytest.mark.parametrize(
    ("model", "target", "match"),
    [
        (RidgeRegressor(C=2.0), "z", r"parameters\.C: 1\.0 then, 2\.0 now"),
        (RidgeRegressor(), "w", r'data\.target: "z" then, "w" now'),
        (RidgeClassifier(), "z", "estimator.*RidgeRegressor"),
    ],
)
def test_other_fits_are_refused(parquet, tmp_path, model, target, match):
    RidgeRegressor().fit(data(parquet), checkpoint=tmp_path / "run")
    with pytest.raises(CheckpointError, match=match):
        model.fit(data(parquet, target), checkpoint=tmp_path / "run")


def test_resume_goes_on_after_the_summary(parquet, tmp_path, monkeypatch):
    whole = RidgeRegressor().fit(data(parquet))
    with monkeypatch.context() as patch:
        patch.setattr(np.linalg, "solve", interrupt)
        with pytest.raises(KeyboardInterrupt):
            RidgeRegressor().fit(data(parquet), checkpoint=tmp_path / "run")
    resumed = RidgeRegressor().fit(data(parquet), checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    assert resumed.n_passes_ == whole.n_passes_ == 2


def interrupt(*args):
    raise KeyboardInterrupt


def test_arrays(table, tmp_path):
    X, _, z = table
    first = RidgeRegressor().fit(X, z, checkpoint=tmp_path / "run")
    again = RidgeRegressor().fit(X, z, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(again.coef_, first.coef_)
    with pytest.raises(CheckpointError, match=r"another fit: data\.rows_hash"):
        RidgeRegressor().fit(X, z + 1, checkpoint=tmp_path / "run")
