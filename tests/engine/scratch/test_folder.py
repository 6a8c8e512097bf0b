"""Scratch folders of dead processes go at the next start, those of living ones stay."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from streamlearn.config import config_context
from streamlearn.engine.scratch.folder import (
    ScratchFolder,
    lies_in_memory,
    remove_dead,
    scratch_root,
    scratch_write,
)
from streamlearn.errors import ScratchError

LEFT_BEHIND = """
import os, signal, sys
from streamlearn.config import config_context
from streamlearn.engine.scratch.folder import ScratchFolder
with config_context(scratch=sys.argv[1]):
    (ScratchFolder().path / "rows").write_bytes(bytes(100))
os.kill(os.getpid(), signal.SIGKILL)
"""


def folders(root):
    return sorted(path.name for path in Path(root).iterdir())


@pytest.mark.fault
def test_what_a_killed_process_leaves_goes_at_the_next_start(tmp_path):
    subprocess.run([sys.executable, "-c", LEFT_BEHIND, str(tmp_path)], timeout=60)
    assert len(folders(tmp_path)) == 1
    with config_context(scratch=tmp_path):
        mine = ScratchFolder()
        name = mine.path.name
    assert folders(tmp_path) == [name]
    mine.remove()
    assert folders(tmp_path) == []


def test_only_dead_processes_of_this_host_lose_their_folder(tmp_path):
    with config_context(scratch=tmp_path):
        living = ScratchFolder()
        owner = json.loads((living.path / "owner.json").read_text())
    host, pid = socket.gethostname(), os.getpid()
    made = {
        f"streamlearn-{host}-{pid}-00000001": owner | {"started": "another time"},
        f"streamlearn-{host}-{2**22 + 7}-00000002": owner | {"pid": 2**22 + 7},
        f"streamlearn-elsewhere-{2**22 + 7}-00000003": owner,
        f"streamlearn-{host}-{2**22 + 7}-00000004": owner | {"namespace": "another"},
        f"streamlearn-{host}-{2**22 + 7}-00000005": None,
        "streamlearn-notes": owner,
    }
    for name, content in made.items():
        (tmp_path / name).mkdir()
        if content is not None:
            (tmp_path / name / "owner.json").write_text(json.dumps(content))
    remove_dead(tmp_path)
    assert set(folders(tmp_path)) == {living.path.name, *list(made)[2:]}


def test_where_scratch_lies(tmp_path, monkeypatch):
    import dask

    with config_context(scratch=tmp_path / "a"):
        assert scratch_root() == tmp_path / "a"
    with dask.config.set({"temporary-directory": str(tmp_path / "b")}):
        assert scratch_root() == tmp_path / "b"
    with config_context(scratch=False), pytest.raises(ScratchError, match="scratch is False"):
        scratch_root()


def test_a_full_or_closed_disk_is_named(tmp_path):
    text = rf"cannot write 2.0 MiB to scratch folder {tmp_path} \(.* free\): No space left"
    with pytest.raises(ScratchError, match=text), scratch_write(tmp_path / "x", 2 << 20):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError), scratch_write(tmp_path / "x", 2 << 20):
        raise FileNotFoundError


def test_a_folder_without_permission_is_named(tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)  # root may write anywhere
    with config_context(scratch=tmp_path), pytest.raises(ScratchError, match="Permission denied"):
        ScratchFolder().path  # noqa: B018


def test_a_path_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        config_context(scratch=tmp_path / "file"),
        pytest.raises(ScratchError, match="/file/.*File exists"),
    ):
        ScratchFolder().path  # noqa: B018


def test_tmpfs_is_memory(tmp_path):
    assert lies_in_memory(Path("/dev/shm/x")) == Path("/dev/shm").is_mount()


INTERRUPTED = """
import sys
sys.path[:0] = {paths!r}
import os, signal, threading
from engine_kit import Rows, Shuffled, gram_fold, open_run, sgd_fold
import numpy as np
from streamlearn.config import config_context
from streamlearn.engine.scratch.blocks import RowForm
with config_context(scratch={scratch!r}), open_run(Rows(100_000), {checkpoint!r}) as run:
    run.fold(gram_fold(3), name="first")
    run.cache(None, RowForm(lambda c: c, 3, "float32"), in_memory=False, name="cache")
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    for t in range(10_000):
        run.fold(gram_fold(3), name=f"read-{{t}}")
"""


@pytest.mark.fault
def test_an_interrupted_fit_leaves_its_checkpoint_and_no_scratch(tmp_path):
    tests = Path(__file__).parent.parent.parent
    code = INTERRUPTED.format(
        paths=[str(tests), str(tests.parent)],
        scratch=str(tmp_path / "scratch"),
        checkpoint=str(tmp_path / "run"),
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert b"KeyboardInterrupt" in ended.stderr
    assert ended.returncode == -signal.SIGINT
    assert folders(tmp_path / "scratch") == []
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["log"][0]["name"] == "first"
