"""What is to go wrong in a worker, ordered by the read it happens in: no test waits for a clock."""

import contextlib
import fcntl
import json
import os
import signal
import time
from pathlib import Path

LONGEST_S = 600
"""A bound on waits that end by an event; reached only when a test fails."""


class Orders:
    """What is to go wrong, told to all workers through a folder.

    `give` takes lists of read numbers, from 1: ``kill`` (the worker that reads, by SIGKILL),
    ``flaky`` (this ref fails now and the next time), ``pause`` (the worker takes no more tasks
    until its memory is looked at again), ``end`` (the process whose id is `pid` is killed),
    ``damage`` (the last row group of `path` is overwritten), ``ask`` (the read waits until
    `Cluster` has done what its name says: ``add`` or ``retire`` a worker).  ``kill_in`` counts the
    reads of each pass: ``{pass: [numbers]}``.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.give()

    def give(self, **what):
        state = {"n_reads": 0, "passes": {}, "failing": {}, **what}
        for old in self.folder.glob("*ed-*"):
            old.unlink()
        with self._locked() as file:
            write(file, state)

    @property
    def n_reads(self):
        with self._locked() as file:
            return read(file)["n_reads"]

    @property
    def passes(self):
        """Reads of each pass, in the order in which the passes began."""
        with self._locked() as file:
            return read(file)["passes"]

    def obey(self, ref):
        """Called by every read of a ref on a worker."""
        (key,) = list(the_worker().active_threads.values())  # reads ahead are in threads of theirs
        name, _, _ = key.rpartition("-")
        with self._locked() as file:
            state = read(file)
            n = state["n_reads"] = state["n_reads"] + 1
            n_here = state["passes"][name] = state["passes"].get(name, 0) + 1
            failing = state["failing"]
            if n in state.get("flaky", []):
                failing[str(ref.start)] = 2
            fails = failing.get(str(ref.start), 0)
            failing[str(ref.start)] = fails - 1
            write(file, state)
        if n in state.get("kill", []) or n_here in state.get("kill_in", {}).get(name, []):
            os.kill(os.getpid(), signal.SIGKILL)
        if n in state.get("end", []):
            os.kill(state["pid"], signal.SIGKILL)
        if n in state.get("damage", []):
            damage(state["path"])
        if n in state.get("pause", []):
            pause()
        for name, at in state.get("ask", {}).items():
            if n == at:
                self._ask(name)
        if fails > 0:
            raise OSError(f"ordered to fail, {fails - 1} more times")

    def _ask(self, name):
        asked = self.folder / f"asked-{name}"
        asked.with_suffix(".new").write_text(the_worker().address)
        asked.with_suffix(".new").rename(asked)
        wait_until((self.folder / f"answered-{name}").exists)

    @contextlib.contextmanager
    def _locked(self):
        with open(self.folder / "orders.json", "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file


def read(file):
    file.seek(0)
    return json.load(file)


def write(file, state):
    file.seek(0)
    file.truncate()
    json.dump(state, file)
    file.flush()


def wait_until(holds):
    until = time.monotonic() + LONGEST_S
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def damage(path):
    """Overwrite the data of the last row group, keeping what was there beside it."""
    import pyarrow.parquet as pq

    with contextlib.suppress(FileExistsError):
        os.link(path, f"{path}.whole")
        footer = pq.read_metadata(path)
        at = footer.row_group(footer.num_row_groups - 1).column(0).data_page_offset
        content = bytearray(Path(path).read_bytes())
        content[at : at + 64] = b"\xff" * 64
        Path(f"{path}.damaged").write_bytes(content)
        os.replace(f"{path}.damaged", path)


def repair(path):
    os.replace(f"{path}.whole", path)


def the_worker():
    """The worker of this process, from any of its threads."""
    from distributed import Worker

    (worker,) = Worker._instances
    return worker


def pause():
    from distributed.core import Status

    worker = the_worker()
    worker.loop.add_callback(setattr, worker, "status", Status.paused)


class Obedient:
    """A source whose readers obey orders before each read."""

    def __init__(self, source, orders):
        self._source, self._orders = source, orders

    def __getattr__(self, name):
        return getattr(self._source, name)

    def reader(self):
        return ObedientReader(self._source.reader(), self._orders)


class ObedientReader:
    def __init__(self, reader, orders):
        self._reader, self._orders = reader, orders

    def __enter__(self):
        self._reader.__enter__()
        return self

    def __exit__(self, *exc):
        return self._reader.__exit__(*exc)

    def read(self, ref):
        self._orders.obey(ref)
        return self._reader.read(ref)


def obey(folder):
    """Make every task of this process obey the orders in `folder`."""
    from streamlearn.engine import lanes

    lanes.FIRST_WAIT_S = 0.01
    begin, orders = lanes.RetryingReader.__init__, Orders.__new__(Orders)
    orders.folder = Path(folder)
    lanes.RetryingReader.__init__ = lambda self, source: begin(self, Obedient(source, orders))
