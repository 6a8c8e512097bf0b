"""What a disk can do to a checkpoint and to scratch is told in our errors, with the remedy."""

import errno
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from engine_kit import Rows, assert_same, gram_fold, open_run, program, sgd_fold
from engine_kit import Shuffled as Order

from streamlearn.data.files import archive
from streamlearn.engine.scratch import row_state
from streamlearn.errors import CheckpointError, ScratchError, StreamlearnError

GONE = "folder was removed while|cannot be used: .*No such file|cannot write .* to scratch"
CANNOT = "cannot be used: .*as its last commit left it, so run the same line again"


def test_a_file_in_the_place_of_a_checkpoint_is_named(tmp_path):
    place = tmp_path / "run"
    place.write_text("mine")
    with pytest.raises(CheckpointError, match=f"checkpoint {place} {CANNOT}"):
        open_run(Rows(), place).__enter__()
    with pytest.raises(CheckpointError, match=f"checkpoint {place / 'below'} {CANNOT}"):
        open_run(Rows(), place / "below").__enter__()
    assert place.read_text() == "mine"


def test_a_full_disk_leaves_the_last_commit_and_is_named(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    place = tmp_path / "run"
    with open_run(Rows(), place) as run:
        run.fold(gram_fold(3), name="a")
        with monkeypatch.context() as patch:
            patch.setattr(archive.os, "fsync", full)
            with pytest.raises(StreamlearnError, match="No space left"):
                run.fold(gram_fold(3), name="b")
    with open_run(Rows(), place) as run:
        run.fold(gram_fold(3), name="a")
        resumed = run.fold(gram_fold(3), name="b")
    with open_run(Rows(), None) as run:
        assert_same(resumed, run.fold(gram_fold(3), name="b"))


@pytest.mark.parametrize("kind", ["checkpoint", "scratch"])
def test_a_folder_removed_in_mid_fit_is_named(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    place = tmp_path / "run" if kind == "checkpoint" else None
    with open_run(Rows(), place) as run:
        run.sweep(sgd_fold(np.zeros(3), row_state="sum"), None, Order(), name="a")
        shutil.rmtree(tmp_path / ("scratch" if place is None else "run"))
        with pytest.raises(
            StreamlearnError,
            match=GONE,
        ):
            run.sweep(sgd_fold(np.zeros(3), row_state="sum"), None, Order(), name="b")


def test_row_state_on_a_disk_that_fills_is_named(tmp_path, monkeypatch):
    def full(handle, view, at):
        raise OSError(errno.ENOSPC, "No space left on device")

    with open_run(Rows(), tmp_path / "run") as run:
        run.sweep(sgd_fold(np.zeros(3), row_state="sum"), None, Order(), name="a")
        with monkeypatch.context() as patch:
            patch.setattr(row_state.os, "pwrite", full)
            with pytest.raises(ScratchError, match="No space left.*pass a folder with room"):
                run.sweep(sgd_fold(np.zeros(3), row_state="sum"), None, Order(), name="b")
    assert os.listdir(tmp_path / "run")


def test_a_whole_fit_still_ends_after_such_errors(tmp_path):
    with open_run(Rows(), tmp_path / "run") as run:
        first = program(run)
    with open_run(Rows(), tmp_path / "run") as run:
        assert_same(program(run), first)


LIMITED = """
import resource, sys
import numpy as np
from engine_kit import Rows, Shuffled, open_run, sgd_fold
import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.engine.scratch.blocks import RowForm

resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
for what in ("row state", "cache"):
    try:
        with sl.config_context(scratch=sys.argv[1]), open_run(Rows(1 << 13), None) as run:
            if what == "cache":
                run.cache(Rows(1 << 13), RowForm(None, 3, "float64"), in_memory=False, name="c")
            else:
                run.sweep(sgd_fold(np.zeros(3), row_state="sum"), None, Shuffled(), name="a")
    except sl.ScratchError as error:
        print(what, error)
"""


@pytest.mark.fault
def test_a_disk_that_fills_in_mid_read_is_named(tmp_path):
    """No file may grow beyond 8 kB, as on a disk that is full there."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert [line.split(" cannot ")[0] for line in said] == ["row state", "cache"]
    for line in said:
        assert re.search(r"cannot write .* to scratch folder .*File too large; pass a folder", line)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
