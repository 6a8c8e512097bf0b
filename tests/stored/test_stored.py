"""Models and checkpoints that earlier versions wrote are read as they were meant."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from stored.make import models

import streamlearn as sl
from streamlearn.data.files.archive import read_archive

FOLDER = Path(__file__).parent
FORMATS = sorted(path.name for path in FOLDER.glob("format-*"))
MODELS = {name: rest for name, *rest in models()}
CHECKPOINTS = [
    f"{made}/{path.stem}" for made in FORMATS for path in (FOLDER / made).glob("*.checkpoint")
]


def test_every_family_is_stored():
    for made in FORMATS:
        assert {path.stem for path in (FOLDER / made).glob("*.slm")} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("made", FORMATS)
def test_a_stored_model_decides_as_it_did(made, name):
    _, X, _ = MODELS[name]
    model = sl.load(FOLDER / made / f"{name}.slm")
    decide = getattr(model, "decision_function", model.predict)
    expected = np.load(FOLDER / made / f"{name}.npy")
    np.testing.assert_allclose(decide(X)[:20], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("made", FORMATS)
def test_a_stored_model_asks_for_nothing_that_came_after_it(made, name):
    """A parameter that its file does not say is not the default of today: fitted anew, it is the
    estimator that it was."""
    model = sl.load(FOLDER / made / f"{name}.slm")
    said = read_archive(FOLDER / made / f"{name}.slm")["parameters"]
    later = {k: v for k, v in model._later_parameters.items() if k in model.get_params()}
    assert {k: model.get_params()[k] for k in later} == {k: said.get(k, later[k]) for k in later}


@pytest.mark.parametrize("stored", CHECKPOINTS)
def test_a_stored_checkpoint_of_a_finished_fit_gives_the_model_without_a_read(
    stored, tmp_path, monkeypatch
):
    """As long as the package has the version that wrote it; another version says which."""
    from streamlearn.engine.checkpoint import store

    place = tmp_path / "checkpoint"
    shutil.copytree(FOLDER / f"{stored}.checkpoint", place)
    name = stored.partition("/")[2]
    model, X, y = MODELS[name]
    expected = np.load(FOLDER / f"{stored}.npy")
    monkeypatch.setattr("streamlearn.engine.run.Run.fold", None)  # a read would fail
    monkeypatch.setattr(store, "package_version", lambda: "0.1.0")
    model.fit(X, y, checkpoint=place)
    decisions = model.decision_function(X)[:20]
    np.testing.assert_allclose(decisions, expected, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(store, "package_version", lambda: "9.9.9")
    with pytest.raises(sl.CheckpointError, match=r"version '0\.1\.0' then, '9\.9\.9' now"):
        model.fit(X, y, checkpoint=place)
