"""One fit at a time in a checkpoint: the second is refused by name, a dead one is forgotten."""

import errno
import fcntl
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from engine.checkpoint import lock_job
from engine_kit import Rows, assert_same, gram_fold, open_run, program
from promises.forks import started

from streamlearn.engine.checkpoint import folder_lock, lease
from streamlearn.engine.processes import identity_of, is_alive, this_process
from streamlearn.engine.watch.status import read_status
from streamlearn.errors import CheckpointError

IN_USE = rf"in use by another fit: host .+, process {os.getpid()}, since \d{{4}}-.*another folder"
ELSEWHERE = {"host": "elsewhere", "pid": 7, "started": "then", "namespace": "there", "since": 0}


@pytest.fixture(autouse=True)
def quick_leases(monkeypatch):
    monkeypatch.setattr(lease, "BEAT_S", 0.05)
    monkeypatch.setattr(lease, "LEASE_S", 0.6)


@pytest.fixture(params=["folder", "url", "folder without locks"])
def place(request, tmp_path, monkeypatch):
    """Every kind of place that a checkpoint has."""
    if request.param == "url":
        return f"memory://locks/{tmp_path.name}"
    if request.param == "folder without locks":
        monkeypatch.setattr(folder_lock.fcntl, "flock", no_locks)
    return str(tmp_path / "run")


def no_locks(handle, operation):
    raise OSError(errno.ENOLCK, "No locks available")


def begin(place, name="a"):
    with open_run(Rows(), place) as run:
        return run.fold(gram_fold(3), name=name)


def files(place):
    if place.startswith("memory:"):
        fs, path = lease.filesystem(place)
        return {str(file).rpartition("/")[2] for file in fs.ls(path, False)}
    return set(os.listdir(place))


def test_a_second_fit_is_refused_and_told_who_has_it(place):
    with open_run(Rows(), place) as run:
        expected = run.fold(gram_fold(3), name="a")
        with pytest.raises(CheckpointError, match=IN_USE):
            begin(place)
        run.fold(gram_fold(3), name="b")
    assert_same(begin(place), expected)
    assert not [file for file in files(place) if file.startswith(("lock", "beat"))]


def test_a_thread_of_the_same_process_is_refused_too(place):
    with open_run(Rows(), place) as run, ThreadPoolExecutor(1) as pool:
        run.fold(gram_fold(3), name="a")
        with pytest.raises(CheckpointError, match=IN_USE):
            pool.submit(begin, place).result()


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_fit_that_failed_is_resumed_by_the_same_process(place, error):
    def fails():
        with open_run(Rows(), place) as run:
            run.fold(gram_fold(3), name="a")
            raise error("on purpose")

    with pytest.raises(error, match="on purpose"):
        fails()
    with open_run(Rows(), None) as run:
        assert_same(begin(place), run.fold(gram_fold(3), name="a"))


def test_a_finished_checkpoint_and_its_status_are_read_without_a_lock(place):
    with open_run(Rows(), place) as run:
        expected = program(run)
        before = files(place)
        with open_run(Rows(), place) as second:
            assert_same(program(second), expected)
        read_status(place)
        assert files(place) == before


def test_a_fit_whose_folder_was_taken_away_writes_nothing_more(place):
    with open_run(Rows(), place) as run:
        run.fold(gram_fold(3), name="a")
        take_away(place)
        with pytest.raises(CheckpointError, match="removed, replaced or taken over"):
            run.record(t=0)
    if not place.startswith("memory:"):
        assert files(place) <= {"manifest.json"} | {f for f in files(place) if "read-" in f}


def take_away(place):
    if place.startswith("memory:"):
        fs, path = lease.filesystem(place)
        for file in fs.ls(path, False):
            if "/lock-" in str(file):
                fs.rm_file(file)
        return
    for file in Path(place).glob("lock*"):
        file.unlink()


# Locks of folders.


@pytest.mark.parametrize("kind", ["symlink", "hard link", "folder", "pipe", "dangling"])
def test_the_lock_is_never_a_link_to_something_else(tmp_path, kind):
    run, victim = tmp_path / "run", tmp_path / "victim.txt"
    run.mkdir()
    victim.write_text("mine")
    path = run / folder_lock.LOCK
    if kind == "symlink":
        path.symlink_to(victim)
    elif kind == "dangling":
        path.symlink_to(tmp_path / "made.txt")
    elif kind == "hard link":
        path.hardlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(CheckpointError, match="is a link, a folder or a device"):
        begin(run)
    assert victim.read_text() == "mine"
    assert not (tmp_path / "made.txt").exists()


def test_a_name_left_by_a_dead_fit_is_not_given_for_the_living_one(tmp_path, monkeypatch):
    """Whoever locks has yet to write its name: what stands there is of the fit before."""
    monkeypatch.setattr(folder_lock, "NAMING_S", 0.1)
    path = tmp_path / folder_lock.LOCK
    path.write_text(json.dumps({**this_process(), "started": "another time", "since": 0}))
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(CheckpointError, match="host unknown, process unknown"):
            begin(tmp_path)
    begin(tmp_path)


def test_a_fork_does_not_keep_the_lock_nor_give_it_up(tmp_path):
    read, write = os.pipe()
    with open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="a")
        child = os.fork()
        if child == 0:  # as a fit that ends in a fork would: its lock is its parent's
            folder_lock._release(tmp_path, 99, os.getppid())
            os.write(write, b"x")
            signal.pause()
        os.read(read, 1)
        with pytest.raises(CheckpointError, match="in use by another fit"):
            begin(tmp_path)
    begin(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


# Leases.


def leave(place, name, holder, beat=b"has 1"):
    fs, path = lease.filesystem(place)
    fs.pipe_file(f"{path}/lock-{name}.json", json.dumps(holder).encode())
    fs.pipe_file(f"{path}/beat-{name}.json", beat)
    return fs, path


DEAD = {
    "of this host": lambda: {**this_process(), "started": "another time"},
    "of this process, left": this_process,
    "elsewhere, silent": lambda: ELSEWHERE,
    "without a name": list,
}


@pytest.mark.parametrize("who", DEAD)
def test_a_dead_lease_is_taken_over(tmp_path, who):
    place = f"memory://locks/{tmp_path.name}"
    leave(place, "0" * 16, DEAD[who]())
    began = time.monotonic()
    begin(place)
    took = time.monotonic() - began
    assert took >= lease.LEASE_S if who in ("elsewhere, silent", "without a name") else took < 0.5
    assert not [file for file in files(place) if file.startswith(("lock", "beat"))]


@pytest.mark.parametrize("beat, name", [("has", "f" * 16), ("asks", "0" * 16)])
def test_a_lease_that_beats_elsewhere_is_respected(tmp_path, beat, name):
    place = f"memory://locks/{tmp_path.name}"
    fs, path = leave(place, name, ELSEWHERE)
    over = threading.Event()

    def renew():
        for n in range(10**6):
            fs.pipe_file(f"{path}/beat-{name}.json", f"{beat} {n}".encode())
            if over.wait(0.05):
                return

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        with pytest.raises(CheckpointError, match="host elsewhere, process 7, since 1970"):
            begin(place)
    finally:
        over.set()
        thread.join()
    assert fs.exists(f"{path}/lock-{name}.json")


def test_of_fits_that_ask_at_once_one_begins(tmp_path):
    for turn in range(5):
        place = f"memory://locks/{tmp_path.name}/{turn}"
        outcomes, barrier = [], threading.Barrier(4)

        def one(place=place, outcomes=outcomes, barrier=barrier):
            barrier.wait()
            try:
                with lease.lease(place):
                    outcomes.append("has")
                    time.sleep(0.5)
            except CheckpointError:
                outcomes.append("refused")

        threads = [threading.Thread(target=one) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["has", "refused", "refused", "refused"]


def test_names_that_no_fit_makes_are_neither_followed_nor_removed(tmp_path):
    place = f"memory://locks/{tmp_path.name}"
    fs, path = lease.filesystem(place)
    for name in ("lock-mine.json", "beat-notes.json", "lock.json"):
        fs.pipe_file(f"{path}/{name}", b"mine")
    begin(place)
    assert {"lock-mine.json", "beat-notes.json", "lock.json"} <= files(place)


# Processes.


def test_a_process_is_itself_whatever_the_clock_says(monkeypatch):
    me = this_process()
    monkeypatch.setattr("psutil.boot_time", lambda: 0.0)
    monkeypatch.setattr("psutil._pslinux.BOOT_TIME", 5.0, raising=False)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert this_process() == me
    assert is_alive(me) is True
    assert identity_of(2**22 + 7) is None
    for strange in ({}, {**me, "pid": "x"}, {**me, "pid": -1}, {**me, "pid": 2.0}):
        assert is_alive(strange) is None


def test_a_clock_that_jumps_changes_nothing(place, monkeypatch):
    """A day ahead and a day back, in turn, at each look, while two fits want one checkpoint."""
    with open_run(Rows(), None) as run:
        quiet = run.fold(gram_fold(3), name="a")
    truth, looks = time.time, iter(range(10**9))

    def jumping():
        return truth() + 86_400 * (-1) ** next(looks)

    monkeypatch.setattr("time.time", jumping)
    monkeypatch.setattr("time.time_ns", lambda: int(1e9 * jumping()))
    with open_run(Rows(), place) as run:
        assert_same(run.fold(gram_fold(3), name="a"), quiet)
        for _ in range(3):
            time.sleep(2 * lease.BEAT_S)
            with pytest.raises(CheckpointError, match="in use by another fit"):
                begin(place)
        assert_same(run.fold(gram_fold(3), name="b"), quiet)
    assert_same(begin(place), quiet)
    assert next(looks) > 2


def start(place, wait, scratch):
    process, pipe = started(lock_job.main, str(place), wait, str(scratch))
    assert pipe.recv() == "ready"
    return process, pipe


def outcomes(fits):
    """What each answers, after all were told to begin."""
    for _, pipe in fits:
        pipe.send("go")
    ends = []
    for process, pipe in fits:
        assert pipe.poll(120)
        ends.append(pipe.recv())
        process.join()
    return ends


MANY = pytest.param(40, marks=pytest.mark.fault)
MORE = pytest.param(100, marks=[pytest.mark.fault, pytest.mark.turns(1, 1)])


@pytest.mark.parametrize("n_pairs", [2, MANY, MORE])
def test_pairs_of_processes_give_the_quiet_bits_or_one_refusal_by_name(tmp_path, n_pairs):
    quiet = quiet_bits()
    rng, counts = random.Random(0), Counter()
    for pair in range(n_pairs):
        place = tmp_path / str(pair)
        waits = [rng.choice((0, rng.uniform(0, 0.5))) for _ in range(2)]
        fits = [start(place, wait, tmp_path / "scratch") for wait in waits]
        ends = outcomes(fits)
        refused = [end["refused"] for end in ends if "refused" in end]
        assert len(refused) < 2
        for text in refused:
            pid = re.search(r"in use by another fit: host .+, process (\d+), since \d", text)
            assert int(pid[1]) in [process.pid for process, _ in fits], text
        assert {end["bits"] for end in ends if "bits" in end} == {quiet}
        counts["one refused" if refused else "both the quiet bits"] += 1
    print(dict(counts))
    assert os.listdir(tmp_path / "scratch") == []


def test_two_processes_share_a_scratch_folder_and_a_kernel_cache(tmp_path):
    scratch = tmp_path / "scratch"
    fits = [start(tmp_path / str(n), 0, scratch) for n in range(2)]
    assert outcomes(fits) == [{"bits": quiet_bits()}] * 2
    assert os.listdir(scratch) == []


def quiet_bits():
    """What a fit that is alone computes."""
    with open_run(Rows(), None) as run:
        result = program(run)
    bits = b"".join(result[name].tobytes() for name in ("w", "sums", "gram"))
    return hashlib.sha256(bits).hexdigest()


@pytest.mark.fault
def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path):
    code = "import os, signal; from engine_kit import *\n" + (
        f"with open_run(Rows(), {str(tmp_path)!r}) as run:\n"
        "    run.fold(gram_fold(3), name='a'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -9
    assert (tmp_path / folder_lock.LOCK).exists()
    begin(tmp_path)
    assert not (tmp_path / folder_lock.LOCK).exists()
