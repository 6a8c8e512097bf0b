"""A fit that ends at any instant goes on from there, to the same bits; others are refused."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import dask
import numpy as np
import pytest
from engine_kit import (
    FailingRows,
    Rows,
    Shuffled,
    assert_same,
    gram_fold,
    open_run,
    program,
    sgd_fold,
)

from streamlearn.data.files.archive import write_archive
from streamlearn.engine.checkpoint import lanes_done
from streamlearn.engine.checkpoint.store import check_manifest, new_manifest
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import make_plan
from streamlearn.engine.run import MADE_BY_WRONG_CONTENT, Run
from streamlearn.errors import CheckpointError, MemoryBudgetError


@pytest.fixture(scope="module")
def expected():
    source = Rows()
    plan = make_plan(source, [Needs("read", 1000)], budget=1 << 30, threads=1)
    with Run(source, plan, name="fit", identity={}) as run:
        return program(run), list(run.history)


class Interrupt(Exception):
    pass


def interrupt(run, n_reads):
    """Let the run read `n_reads` times, then fail."""
    compute = run._compute

    def failing(*args, **kwargs):
        nonlocal n_reads
        n_reads -= 1
        if n_reads < 0:
            raise Interrupt
        return compute(*args, **kwargs)

    run._compute = failing


@pytest.mark.parametrize("fails_after", range(0, 10))
def test_a_fit_that_fails_between_any_two_reads_resumes(tmp_path, expected, fails_after):
    result, history = expected
    with open_run(Rows(), tmp_path) as run:
        interrupt(run, fails_after)
        with pytest.raises(Interrupt):
            program(run)
    with open_run(Rows(), tmp_path) as run:
        assert_same(program(run), result)
        assert len(run.history) == 4
        for got, wanted in zip(run.history, history, strict=True):
            assert_same(got, wanted)


def test_finished_reads_are_not_read_again(tmp_path):
    source = FailingRows(folder=str(tmp_path), at=(), times=0)
    with open_run(source, tmp_path / "run") as run:
        first = run.fold(gram_fold(3), name="a")
        run.fold(gram_fold(3), name="b")
    with open_run(source, tmp_path / "run") as run:
        again = run.fold(gram_fold(3), name="a")
        assert run.n_passes == 1
        run.fold(gram_fold(3), name="b")
        assert run.n_passes == 2
    assert_same(first, again)
    assert (tmp_path / "0.log").read_text() == "xx"


def test_a_finished_fit_returns_without_reading(tmp_path, expected):
    with open_run(Rows(), tmp_path) as run:
        program(run)
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {
        "finished",
        "manifest.json",
    }
    with open_run(FailingRows(folder="nowhere"), tmp_path) as run:
        assert_same(program(run), expected[0])
        assert len(run.history) == 4
        assert run.n_passes == expected[0]["n_passes"]


def test_a_broken_file_keeps_the_lanes_before_it(tmp_path):
    broken = FailingRows(folder=str(tmp_path), at=(608,), times=99, error=ValueError)
    # on one thread: another one may still be at an earlier lane when this one breaks
    with (
        dask.config.set(num_workers=1),
        pytest.raises(ValueError, match="rows 608"),
        open_run(broken, tmp_path / "run") as run,
    ):
        run.fold(gram_fold(3), name="a")
    whole = FailingRows(folder=str(tmp_path), at=(), times=0)
    with open_run(whole, tmp_path / "run") as run:
        resumed = run.fold(gram_fold(3), name="a")
    with open_run(Rows(), None) as run:
        assert_same(resumed, run.fold(gram_fold(3), name="a"))
    assert all(Path(tmp_path, f"{start}.log").stat().st_size == 1 for start in range(0, 576, 32))


def test_a_broken_file_keeps_the_segments_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr("streamlearn.engine.groups.LANE_NBYTES", 4 * 32 * 24)
    order = Shuffled()
    refs = Rows().refs()
    last = order.groups(refs, 0)[-2][0]
    broken = FailingRows(folder=str(tmp_path), at=(32 * last,), times=99, error=ValueError)
    with pytest.raises(ValueError, match="cannot read"), open_run(broken, tmp_path / "r") as run:
        run.sweep(sgd_fold(np.zeros(3), row_state="s"), None, order, pass_index=0, name="a")
    whole = FailingRows(folder=str(tmp_path), at=(), times=0)
    results = []
    for source, checkpoint in ((whole, tmp_path / "r"), (Rows(), None)):
        with open_run(source, checkpoint) as run:
            w = run.sweep(sgd_fold(np.zeros(3), row_state="s"), None, order, pass_index=0, name="a")
            results.append({"w": w, "s": np.fromfile(run.row_state("s").read_path)})
    assert_same(*results)
    first = order.groups(refs, 0)[0][0]
    assert Path(tmp_path, f"{32 * first}.log").stat().st_size == 1


def test_kept_lanes_cost_a_bounded_share_of_the_time(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(lanes_done.time, "monotonic", lambda: now[0])
    pace = lanes_done.Pace()
    assert pace.is_due()
    now[0] = 2.0
    pace.saved(began=1.0)
    now[0] = 20.9
    assert not pace.is_due()
    now[0] = 21.0
    assert pace.is_due()


@pytest.mark.parametrize(
    "identity, text",
    [
        ({"parameters": {"C": 2.0}}, "parameters.C: 1.0 then, 2.0 now"),
        ({"data": {"sizes": [1, 3]}}, r"data.sizes\[1\]: 2 then, 3 now"),
        ({"data": {"sizes": [1]}}, r"data.sizes: \[1, 2\] then, \[1\] now"),
        ({"seed": 1}, "seed: absent then, 1 now"),
    ],
)
def test_another_fit_is_refused_by_name(tmp_path, identity, text):
    with open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="a")
    with pytest.raises(CheckpointError, match=text), open_run(Rows(), tmp_path, identity):
        pass


def test_another_version_is_refused(tmp_path):
    with open_run(Rows(), tmp_path):
        pass
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": "0.0.0"}))
    with pytest.raises(CheckpointError, match="version '0.0.0' then"), open_run(Rows(), tmp_path):
        pass
    manifest.write_text("not a manifest")
    with pytest.raises(CheckpointError, match="is not a manifest"), open_run(Rows(), tmp_path):
        pass


def test_another_path_through_the_fit_is_refused(tmp_path):
    with open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="a")
    with open_run(Rows(), tmp_path) as run:
        with pytest.raises(CheckpointError, match="has read 'a' where the fit now asks for read"):
            run.fold(gram_fold(3), name="b")


def test_a_damaged_file_is_named(tmp_path):
    with open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="a")
    file = next(tmp_path.glob("read-*"))
    file.write_bytes(file.read_bytes()[:-64])
    with open_run(Rows(), tmp_path) as run:
        with pytest.raises(CheckpointError, match=f"is damaged: .*{file.name}"):
            run.fold(gram_fold(3), name="a")


def test_a_kept_result_of_another_read_is_refused_where_it_does_not_fit(tmp_path):
    with open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="a")
    file = next(tmp_path.glob("read-*"))
    write_archive(file, {"a loop's state": 3})
    with pytest.raises(CheckpointError, match=r"went on from checkpoint .* failed \(KeyError"):
        with open_run(Rows(), tmp_path) as run:
            np.linalg.cholesky(run.fold(gram_fold(3), name="a")["gram"] + np.eye(3))


def test_an_algorithm_fails_with_its_own_error_where_nothing_was_kept(tmp_path):
    with pytest.raises(KeyError, match="sum of cubes"), open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="a")["sum of cubes"]


NAME = "0123456789abcdef"
LEFTOVERS = (
    *(f"read-{NAME}.slm", f".node-{NAME}.slm.1.ab.tmp", f"rows-{NAME}.bin", "notes.txt"),
    *(".manifest.json.17.abcd.tmp", "read-mine.slm", ".manifest.json.bak"),
)
FOREIGN = ("notes.txt", "read-mine.slm", ".manifest.json.bak")
"""What the library never makes, and never removes."""


def test_leftovers_of_a_kill_are_removed(tmp_path):
    with open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="a")
    for name in LEFTOVERS:
        (tmp_path / name).write_text("x")
    with open_run(Rows(), tmp_path):
        pass
    assert all((tmp_path / name).exists() for name in FOREIGN)
    assert len(list(tmp_path.iterdir())) == 2 + len(FOREIGN)


@pytest.mark.parametrize("file", ["../victim.txt", "victim.txt", "/tmp/victim", 7, "read-0.slm/.."])
@pytest.mark.parametrize("where", ["log", "finished", "rows", "partial", "node"])
def test_a_manifest_leads_to_no_file_that_the_library_did_not_make(tmp_path, file, where):
    """Neither to read nor to remove it, in the folder or beside it."""
    victims = [tmp_path / "victim.txt", tmp_path / "checkpoint" / "victim.txt"]
    with open_run(Rows(), tmp_path / "checkpoint") as run:
        run.fold(gram_fold(3), name="a")
    for victim in victims:
        victim.write_text("mine")
    path = tmp_path / "checkpoint" / "manifest.json"
    manifest = json.loads(path.read_text())
    partial = {"name": "b", "cut": [0, 1], "rows": {}}
    if where == "log":
        manifest["log"][0]["file"] = file
    elif where == "finished":
        manifest["finished"] = {"file": file}
    elif where == "rows":
        manifest["rows"]["dual"] = {"file": file, "dtype": "float64", "width": 1}
    elif where == "partial":
        manifest["partial"] = {**partial, "file": file, "n_done": 1}
    else:
        manifest["partial"] = {**partial, "nodes": [{"node": [0, 0], "file": file}]}
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="is not a manifest"):
        with open_run(Rows(), tmp_path / "checkpoint") as run:
            run.fold(gram_fold(3), name="b")
    assert all(victim.read_text() == "mine" for victim in victims)


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"log": 1}', "\xff", "[" * 10_000, '"x"'])
def test_what_is_no_manifest_is_refused_by_name(tmp_path, text):
    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"manifest\.json is not a manifest.*start anew"):
        with open_run(Rows(), tmp_path):
            pass


@pytest.mark.parametrize("key", new_manifest({}))
def test_a_manifest_says_all_that_a_fit_writes(tmp_path, key):
    with open_run(Rows(), tmp_path):
        pass
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest[key]
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=f"is not a manifest .*says nothing of {key}"):
        with open_run(Rows(), tmp_path):
            pass


@pytest.mark.parametrize("kind", MADE_BY_WRONG_CONTENT)
def test_what_wrong_content_makes_an_algorithm_raise_names_the_checkpoint(tmp_path, kind):
    with open_run(Rows(), tmp_path):
        pass
    with pytest.raises(
        CheckpointError, match=f"went on from checkpoint .* failed .{kind.__name__}"
    ):
        with open_run(Rows(), tmp_path):
            raise kind("not what this fit wrote")


@pytest.mark.parametrize("half", [False, True], ids=["whole", "half written"])
def test_row_state_that_is_no_numbers_is_refused_before_a_kernel_has_it(
    tmp_path, half, monkeypatch
):
    """A bin that is looked up by NaN lies outside every table."""
    monkeypatch.setattr("streamlearn.engine.groups.LANE_NBYTES", 4 * 32 * 24)
    place, w = tmp_path / "run", np.zeros(3)
    first = FailingRows(folder=str(tmp_path), at=(608,) if half else (), times=99, error=ValueError)
    with contextlib.suppress(ValueError), open_run(first, place) as run:
        run.sweep(sgd_fold(w, row_state="sum"), None, Shuffled(), name="a")
    (file,) = place.glob("rows-*")
    values = np.fromfile(file)
    values[values != 0] = np.nan
    values.tofile(file)

    def go_on():
        with open_run(FailingRows(folder=str(tmp_path), at=(), times=0), place) as run:
            for name in ("a", "b"):
                run.sweep(sgd_fold(w, row_state="sum"), None, Shuffled(), name=name)

    with pytest.raises(CheckpointError, match="row state 'sum' in .*not finite.*changed by others"):
        go_on()


def test_a_resume_goes_by_the_plan_it_began_with(tmp_path):
    source = Rows(4096, slice_rows=1024, row_nbytes=8192)
    with open_run(source, tmp_path, budget=64 << 20) as run:
        assert run.plan.slice_rows == 1024
        began = run.fold(gram_fold(3), name="a")
    with open_run(source, tmp_path, budget=32 << 20, threads=1) as run:
        assert run.plan.slice_rows == 1024
        assert_same(run.fold(gram_fold(3), name="a"), began)
    with pytest.raises(MemoryBudgetError, match="begun with slices of 1024 rows"):
        with open_run(source, tmp_path, budget=14 << 20):
            pass


def test_commit_needs_restore(tmp_path):
    with open_run(Rows(), tmp_path) as run, pytest.raises(ValueError, match="without restore"):
        run.commit("loop", 1)


def test_inner_loops_start_anew_in_each_round_of_the_outer(tmp_path):
    def nested(run, stop_at=None):
        trail = []
        outer = run.restore("outer", 0)
        for i in range(outer, 3):
            inner = run.restore("inner", 0)
            for j in range(inner, 3):
                if (i, j) == stop_at:
                    raise Interrupt
                n = run.fold(gram_fold(3), name=f"read-{i}-{j}")["n"]
                trail.append((i, j, n))
                run.commit("inner", j + 1)
            run.commit("outer", i + 1)
        return trail

    with pytest.raises(Interrupt), open_run(Rows(200), tmp_path) as run:
        nested(run, stop_at=(1, 2))
    with open_run(Rows(200), tmp_path) as run:
        assert [(i, j) for i, j, _ in nested(run)] == [(1, 2), (2, 0), (2, 1), (2, 2)]


def test_a_url_holds_a_checkpoint(expected):
    place = "memory://engine-test/run"
    for n_reads in (3, 7):
        with open_run(Rows(), place) as run:
            interrupt(run, n_reads)
            with pytest.raises(Interrupt):
                program(run)
    with open_run(Rows(), place) as run:
        result = program(run)
    assert_same(result, expected[0])


KILLED = """
import sys, json
sys.path[:0] = {paths!r}
import streamlearn.engine.groups as groups
groups.LANE_NBYTES = 4 * 32 * 24
from engine_kit import FailingRows
from engine_kit import open_run, program
kills = dict(kill=True, times={times}, skip_kills={times} - 1)
source = FailingRows(folder={folder!r}, at=({at},), **kills)
with open_run(source, {checkpoint!r}) as run:
    program(run)
"""


@pytest.mark.fault
@pytest.mark.parametrize("at, times", [(0, 1), (512, 1), (64, 2), (960, 3), (320, 5), (96, 6)])
def test_a_fit_killed_anywhere_resumes_to_the_same_bits(tmp_path, expected, at, times, monkeypatch):
    """SIGKILL in the `times`-th reading of a ref; the resumed fit reads that ref `times` times."""
    monkeypatch.setattr("streamlearn.engine.groups.LANE_NBYTES", 4 * 32 * 24)
    tests = Path(__file__).parent.parent.parent
    log = tmp_path / f"{at}.log"
    code = KILLED.format(
        paths=[str(tests), str(tests.parent)],
        folder=str(tmp_path),
        checkpoint=str(tmp_path / "run"),
        at=at,
        times=times,
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert killed.returncode == -9, killed.stderr.decode()
    assert log.stat().st_size == times
    with open_run(Rows(), tmp_path / "run") as run:
        assert_same(program(run), expected[0])


@pytest.mark.parametrize(
    "changed",
    [{"dtype": None}, {"width": None}, {"dtype": "O"}, {"width": -1}, {"width": 2.5}],
    ids=["no dtype", "no width", "objects", "a negative width", "half a number"],
)
def test_row_states_of_another_form_are_refused(changed):
    """A seeded change of a manifest took the type away, and the fit ended with a KeyError."""
    rows = {"file": "rows-0123456789abcdef.slm", "dtype": "<f4", "width": 1}
    manifest = new_manifest({})
    manifest["rows"]["alpha"] = rows
    check_manifest(manifest)
    manifest["rows"]["alpha"] = {k: v for k, v in (rows | changed).items() if v is not None}
    with pytest.raises(ValueError, match="a row state without"):
        check_manifest(manifest)
