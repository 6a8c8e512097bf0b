"""What a tampered model file may ask for, one attack at a time: refused by name."""

import json
import os
from dataclasses import asdict

import numpy as np
import pytest
from hostile.archives import put_together, take_apart
from hostile.models import STORED

import streamlearn as sl
from streamlearn.engine.checkpoint.store import Checkpoint
from streamlearn.engine.plan import Plan, Term
from streamlearn.engine.planning import plan_of_resume
from streamlearn.engine.watch.status import read_status
from streamlearn.errors import ArchiveError, CheckpointError


def rewritten(tmp_path, name, change):
    header, arrays = take_apart((STORED / f"{name}.slm").read_bytes())
    change(header, arrays)
    path = tmp_path / "model.slm"
    path.write_bytes(put_together(header, arrays))
    return path


@pytest.mark.parametrize("n", [-1, 2**40, 2**62, 2**70])
def test_lengths_that_no_file_has_allocate_nothing(tmp_path, n):
    path = tmp_path / "model.slm"
    raw = (STORED / "mixture.slm").read_bytes()
    path.write_bytes(raw[:22] + (n % 2**64).to_bytes(8, "little") + raw[30:])
    with pytest.raises(ArchiveError, match="cut short or damaged"):
        sl.load(path)


def test_coordinates_in_the_place_of_rows_are_refused(tmp_path):
    """`prepared` bases would take the rows' values as places in the arrays."""

    def change(header, arrays):
        header["tree"]["fitted"]["state"]["bases"]["of"]["prepared"] = True

    with pytest.raises(ArchiveError, match="holds what streamlearn never writes"):
        sl.load(rewritten(tmp_path, "additive-classifier", change))


def test_parameters_that_no_model_takes_are_refused(tmp_path):
    def change(header, arrays):
        header["tree"]["parameters"]["n_bases"] = -5

    with pytest.raises(ArchiveError, match="model that no fit makes.*n_bases"):
        sl.load(rewritten(tmp_path, "additive-classifier", change))


OPENERS = {
    "model": ("m.slm", sl.load, ArchiveError),
    "parquet": ("t.parquet", sl.open_dataset, sl.SourceError),
    "parquet folder": ("t/part.parquet", lambda path: sl.open_dataset(path.parent), sl.SourceError),
    "zarr 3": ("t.zarr/zarr.json", lambda path: sl.open_dataset(path.parent), sl.SourceError),
    "zarr 2": ("t.zarr/.zarray", lambda path: sl.open_dataset(path.parent), sl.SourceError),
    "status": ("run/manifest.json", lambda path: read_status(path.parent), sl.CheckpointError),
    "checkpoint": (
        "run/manifest.json",
        lambda path: sl.AdditiveRegressor().fit(np.eye(9), np.arange(9.0), checkpoint=path.parent),
        sl.CheckpointError,
    ),
}
"""What opens a file that it is given: the file's name, the call, and its error."""


@pytest.mark.parametrize("name", OPENERS)
@pytest.mark.parametrize("kind", ["a pipe", "a folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path, name, kind):
    file, opened, error = OPENERS[name]
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path) if kind == "a pipe" else path.mkdir()
    if name == "parquet" and kind == "a folder":
        kind, told = "", "no file ending in .parquet"
    elif name == "parquet folder" and kind == "a folder":
        told = "no file ending in .parquet"
    else:
        told = f"is {kind}.*expected a file"
    with pytest.raises(error, match=told):
        opened(path)


PLAN = Plan(400, 16, 2, 256, 1 << 20, 1 << 26, (("read", (Term("state", 2, 8),)),), 9600, 0, (1, 5))


def test_a_plan_that_no_fit_writes_is_refused(tmp_path):
    """Whatever comes in the place of one of its values; the plan as it was is taken."""
    checkpoint = Checkpoint(tmp_path, {})
    checkpoint.is_new = False
    checkpoint.manifest["plan"] = json.loads(json.dumps(asdict(PLAN)))
    assert plan_of_resume(checkpoint, PLAN) == PLAN
    damages = [(name, ["x"]) for name in asdict(PLAN)]
    damages += [("lanes_in_flight", 0), ("slice_rows", 0), ("n_rows", -1), ("budget", 0.5)]
    damages += [("terms", [["read", [["state", 2]]]]), ("terms", 7), ("passes", [1])]
    for name, value in damages:
        checkpoint.manifest["plan"] = {**asdict(PLAN), name: value}
        with pytest.raises(CheckpointError, match="none that a fit writes"):
            plan_of_resume(checkpoint, PLAN)
    for name in ("n_rows", "terms", "passes"):
        checkpoint.manifest["plan"] = {k: v for k, v in asdict(PLAN).items() if k != name}
        with pytest.raises(CheckpointError, match="none that a fit writes"):
            plan_of_resume(checkpoint, PLAN)
