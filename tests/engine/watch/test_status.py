"""A fit told to others while it goes on, and stopped by a clock or a signal, leaves a whole log."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from engine_kit import Rows, assert_same, gram_fold, open_run, program

from streamlearn.cli import main
from streamlearn.engine.checkpoint import stopping
from streamlearn.engine.processes import is_alive, this_process
from streamlearn.engine.run import Run
from streamlearn.engine.watch.status import read_status
from streamlearn.errors import CheckpointError, TimeLimitError
from streamlearn.passes.fold import Fold


@pytest.fixture(scope="module")
def expected():
    with open_run(Rows(), None) as run:
        return program(run)


def test_history_grows_in_the_checkpoint(tmp_path):
    with open_run(Rows(), tmp_path) as run:
        for t in range(3):
            run.fold(gram_fold(3), name=f"pass-{t}")
            run.record(t=t, gap=np.float64(0.5**t), sizes=np.arange(2))
            status = read_status(tmp_path)
            assert status.history == [
                {"t": s, "gap": 0.5**s, "sizes": [0, 1]} for s in range(t + 1)
            ]
            assert (status.n_passes, status.rows_read) == (t + 1, 1000 * (t + 1))
            assert (status.state, status.pid) == ("running", os.getpid())
            assert status.reading is None
        run.finish({"w": 1})
    assert read_status(tmp_path).state == "finished"
    assert "gap 0.25" in str(read_status(tmp_path))


def test_a_part_of_a_read_is_told(tmp_path):
    gram = gram_fold(3)
    fold = Fold(gram.start, fail_late, gram.merge)
    with open_run(Rows(), tmp_path) as run, pytest.raises(ZeroDivisionError):
        run.fold(fold, name="half")
    status = read_status(tmp_path)
    assert status.reading == "half"
    assert 0 < status.reading_done < 1
    assert f"{status.reading_done:.0%} kept" in str(status)


def fail_late(state, chunk):
    if chunk.rows[0] > 700:
        raise ZeroDivisionError
    state["n"] += chunk.n_rows
    return state


def test_a_resumed_fit_goes_on_with_its_history(tmp_path, expected):
    with open_run(Rows(), tmp_path) as run:
        full = [run.fold(gram_fold(3), name="a"), run.record(t=0), run.fold(gram_fold(3), name="b")]
        assert len(full) == 3
    with open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="a")
        run.record(t=0)
        assert [r["t"] for r in read_status(tmp_path).history] == [0]
        run.fold(gram_fold(3), name="b")
        run.record(t=1)
        assert [r["t"] for r in read_status(tmp_path).history] == [0, 1]


def test_command_line(tmp_path):
    with open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="pass-1")
        run.record(gap=0.25)
    shown = CliRunner().invoke(main, ["status", str(tmp_path)])
    assert shown.exit_code == 0
    assert "gap 0.25" in shown.output
    record = json.loads(CliRunner().invoke(main, ["status", "--json", str(tmp_path)]).output)
    assert record["n_passes"] == 1
    absent = CliRunner().invoke(main, ["status", str(tmp_path / "none")])
    assert absent.exit_code == 1
    assert "no checkpoint in" in absent.stderr


def test_what_is_no_checkpoint_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="no manifest.json there; pass the folder"):
        read_status(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot read the checkpoint"):
        read_status(tmp_path)


def test_processes_are_told_apart():
    me = this_process()
    assert is_alive(me) is True
    assert is_alive({**me, "started": 1.0}) is False
    assert is_alive({**me, "host": "elsewhere"}) is None


def test_a_clock_stops_a_fit_again_and_again(tmp_path, expected, monkeypatch):
    """Each look at the clock takes a second; in the end the bits are those of one go."""
    clock = iter(range(10**9))
    monkeypatch.setattr(stopping, "monotonic", lambda: next(clock))
    plan, identity = open_run(Rows(), None).plan, {"a": 1}
    stops = []
    for _ in range(50):
        limited = Run(
            Rows(), plan, name="fit", identity=identity, checkpoint=tmp_path, max_seconds=60
        )
        with limited as run:
            try:
                assert_same(program(run), expected)
                break
            except TimeLimitError as error:
                stops.append(str(error))
    assert len(stops) in range(2, 49)
    assert "max_seconds=60" in stops[0]


def test_a_limit_without_a_checkpoint_is_refused():
    plan = open_run(Rows(), None).plan
    with pytest.raises(ValueError, match="would throw away what fit did.*checkpoint="):
        Run(Rows(), plan, name="fit", identity={}, max_seconds=5)


PROGRAM = """
import os, signal, sys
from engine_kit import RowsReader, Rows, open_run, program
from streamlearn.config import config_context
from streamlearn.engine.checkpoint.stopping import orderly_end

read, n = RowsReader.read, [0]

def stop(self, ref):
    n[0] += 1
    if n[0] == int(sys.argv[3]):
        os.kill(os.getpid(), int(sys.argv[4]))
    return read(self, ref)

RowsReader.read = stop
with orderly_end(), config_context(scratch=sys.argv[2]), open_run(Rows(), sys.argv[1]) as run:
    program(run)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_and_no_scratch(tmp_path, expected, number):
    place, scratch = tmp_path / "run", tmp_path / "scratch"
    for n_reads in (20, 50):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, place, scratch, str(n_reads), str(int(number))],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.returncode == -number, done.stderr
        assert not scratch.exists() or not list(scratch.iterdir())
        assert read_status(place).state == "stopped"
    assert read_status(place).n_passes >= 2
    with open_run(Rows(), place) as run:
        assert_same(program(run), expected)
