"""Models in files: the same predictions after a round trip; anything else refused by name."""

import pickle

import numpy as np
import pandas as pd
import pytest
from estimator.ridge import RidgeClassifier, RidgeRegressor
from sklearn.exceptions import NotFittedError

import streamlearn as sl
from streamlearn.data.files.archive import read_archive, write_archive
from streamlearn.errors import ArchiveError


@pytest.fixture
def model(table):
    X, y, _ = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    return RidgeClassifier(C=0.5).fit(frame, np.where(y == 1, "yes", "no"))


def test_round_trip(model, table, tmp_path):
    sl.save(model, tmp_path / "m.slm")
    again = sl.load(tmp_path / "m.slm")
    X = pd.DataFrame(table[0], columns=["a", "b", "c"])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.classes_, model.classes_)
    assert again.classes_.dtype == model.classes_.dtype
    assert again.get_params() == model.get_params()
    assert again.certificate_ == model.certificate_
    assert again.history_ == model.history_
    assert list(again.feature_names_in_) == ["a", "b", "c"]


def test_pickle(model, table):
    X = pd.DataFrame(table[0], columns=["a", "b", "c"])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_not_fitted(tmp_path):
    with pytest.raises(NotFittedError, match="RidgeRegressor instance is not fitted"):
        sl.save(RidgeRegressor(), tmp_path / "m.slm")
    assert not list(tmp_path.iterdir())


def test_damaged_file(model, tmp_path):
    path = tmp_path / "m.slm"
    sl.save(model, path)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    with pytest.raises(ArchiveError, match="m.slm.*cut short or damaged"):
        sl.load(path)
    path.write_bytes(b"something else entirely")
    with pytest.raises(ArchiveError, match="m.slm: not a file this version .* can read"):
        sl.load(path)


def changed(path, **changes):
    write_archive(path, {**read_archive(path), **changes})


def test_unknown_version_class_and_content(model, tmp_path):
    path = tmp_path / "m.slm"
    sl.save(model, path)
    changed(path, format=99)
    with pytest.raises(ArchiveError, match="model format 99, this version of streamlearn reads 1"):
        sl.load(path)
    sl.save(model, path)
    changed(path, **{"class": "NeverWas"})
    with pytest.raises(ArchiveError, match="holds a NeverWas, which is no estimator.*upgrade"):
        sl.load(path)
    changed(path, **{"class": "elsewhere.models:Net"})
    with pytest.raises(
        ArchiveError, match=r"elsewhere\.models:Net.*import elsewhere\.models first"
    ):
        sl.load(path)
    for name in ("warm", "load", "Certificate", "ConvergenceDisplay", "_Gate", "__version__"):
        changed(path, **{"class": name})
        with pytest.raises(ArchiveError, match=f"holds a {name}, which is no estimator"):
            sl.load(path)
    write_archive(path, {"weights": np.zeros(3)})
    with pytest.raises(ArchiveError, match="holds no model"):
        sl.load(path)


def test_parameters_of_another_version(model, tmp_path):
    path = tmp_path / "m.slm"
    sl.save(model, path)
    changed(path, parameters={"C": 1.0, "gamma": 2.0})
    with pytest.raises(ArchiveError, match="RidgeClassifier.*gamma"):
        sl.load(path)


def test_parameter_that_is_no_plain_value(model, tmp_path):
    model.C = object()
    with pytest.raises(TypeError, match=r"RidgeClassifier cannot be saved: .*parameters\.C"):
        sl.save(model, tmp_path / "m.slm")
    assert not list(tmp_path.iterdir())
