"""A dask cluster of processes that are killed, replaced, paused and misled at chosen reads.

Scheduler, workers and drivers are forked from a process that has loaded the libraries, so that a
new one costs a tenth of a second; each ends with the process that runs the tests, however that
ends.  What goes wrong is ordered by the number of the read (of one ref, on any worker) it happens
in, so no test waits for a clock.
"""

import contextlib
import fcntl
import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

from streamlearn import _HOME

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["distributed", "pyarrow.parquet", "streamlearn.warm"]
    + sorted(
        {f"streamlearn.{home}" for name, home in _HOME.items() if name.endswith(("er", "or", "CV"))}
    )
)
LONGEST_S = 600
"""A bound on waits that end by an event; reached only when a test fails."""
SPILLING = {
    "distributed.worker.memory.target": 1e-6,
    "distributed.worker.memory.spill": 1e-5,
    "distributed.worker.memory.max-spill": False,
}
"""Every result goes to disk at once and comes back when it is asked for."""


class Orders:
    """What is to go wrong, told to all workers through a folder.

    `give` takes lists of read numbers, from 1: ``kill`` (the worker that reads, by SIGKILL),
    ``flaky`` (this ref fails now and the next time), ``pause`` (the worker takes no more tasks
    until its memory is looked at again), ``end`` (the process whose id is `pid` is killed),
    ``damage`` (the last row group of `path` is overwritten), ``ask`` (the read waits until
    `Cluster` has done what its name says: ``add`` or ``retire`` a worker).
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.give()

    def give(self, **what):
        state = {"n_reads": 0, "failing": {}, **what}
        for old in self.folder.glob("*ed-*"):
            old.unlink()
        with self._locked() as file:
            write(file, state)

    @property
    def n_reads(self):
        with self._locked() as file:
            return read(file)["n_reads"]

    def obey(self, ref):
        """Called by every read of a ref on a worker."""
        with self._locked() as file:
            state = read(file)
            n = state["n_reads"] = state["n_reads"] + 1
            failing = state["failing"]
            if n in state.get("flaky", []):
                failing[str(ref.start)] = 2
            fails = failing.get(str(ref.start), 0)
            failing[str(ref.start)] = fails - 1
            write(file, state)
        if n in state.get("kill", []):
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
        from distributed import get_worker

        asked = self.folder / f"asked-{name}"
        asked.with_suffix(".new").write_text(get_worker().address)
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


def pause():
    from distributed import get_worker
    from distributed.core import Status

    worker = get_worker()
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

    begin, orders = lanes.RetryingReader.__init__, Orders.__new__(Orders)
    orders.folder = Path(folder)
    lanes.RetryingReader.__init__ = lambda self, source: begin(self, Obedient(source, orders))


def end_with_the_tests():
    """However the tests end, this process ends too."""
    tests = multiprocessing.parent_process()
    threading.Thread(target=lambda: (tests.join(), os._exit(1)), daemon=True).start()


def run_scheduler(pipe):
    import asyncio

    from distributed import Scheduler

    async def main():
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
            pipe.send(scheduler.address)
            await scheduler.finished()

    end_with_the_tests()
    asyncio.run(main())


def run_worker(address, folder, orders, config):
    import asyncio

    import dask
    from distributed import Worker

    async def main():
        async with Worker(
            address,
            nthreads=1,
            local_directory=folder,
            memory_limit="4 GiB",
            death_timeout=LONGEST_S,
        ) as worker:
            await worker.finished()

    end_with_the_tests()
    obey(orders)
    dask.config.set(config)
    asyncio.run(main())


def run_driver(address, job, pipe):
    """One fit, in a process that may be killed; begins when the pipe says so."""
    import warnings

    from distributed import Client
    from promises.fit_job import digest, fit

    end_with_the_tests()
    warnings.simplefilter("ignore")
    pipe.recv()
    with Client(address):
        pipe.send(digest(fit(job)[0]))


class Cluster:
    """A scheduler and workers; `scale` keeps as many alive, whatever kills them."""

    def __init__(self, folder, n_workers, config=None):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.orders = Orders(self.folder / "orders")
        self._config = config or {}
        self._workers = []
        self._lock = threading.RLock()
        self._end = threading.Event()
        mine, others = CONTEXT.Pipe()
        self.scheduler = CONTEXT.Process(target=run_scheduler, args=(others,), daemon=True)
        self.scheduler.start()
        others.close()
        self.address = mine.recv()
        self.n_wanted = n_workers
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._end.set()
        self._keeper.join()
        for process in [*self._workers, self.scheduler]:
            process.kill()
            process.join()

    def scale(self, n_workers):
        """So many workers from now on; waits until they are there."""
        with self._lock:
            self.n_wanted = n_workers
        client = self.client()
        with client:
            while len(client.scheduler_info(n_workers=-1)["workers"]) > n_workers:
                self._retire(client, None)
            client.wait_for_workers(n_workers, timeout=LONGEST_S)

    def client(self):
        from distributed import Client

        return Client(self.address, set_as_default=False, timeout=LONGEST_S)

    def driver(self, job):
        """A process that fits, and the pipe that starts it and gives what it gave."""
        mine, others = CONTEXT.Pipe()
        process = CONTEXT.Process(target=run_driver, args=(self.address, job, others), daemon=True)
        process.start()
        others.close()
        return process, mine

    def _keep(self):
        """Replace dead workers, and do what is asked in mid-read."""
        while not self._end.wait(0.02):
            with self._lock:
                self._workers = [p for p in self._workers if p.is_alive()]
                while len(self._workers) < self.n_wanted and self.scheduler.is_alive():
                    self._start_worker()
            for asked in self.orders.folder.glob("asked-*"):
                if asked.suffix:
                    continue
                self._answer(asked.name.partition("-")[2], asked.read_text())
                asked.rename(asked.with_name(asked.name.replace("asked", "answered")))

    def _start_worker(self):
        arguments = self.address, str(self.folder), str(self.orders.folder), self._config
        worker = CONTEXT.Process(target=run_worker, args=arguments, daemon=True)
        worker.start()
        self._workers.append(worker)

    def _answer(self, name, asker):
        with self._lock:
            self.n_wanted += 1 if name == "add" else -1
            n_workers = self.n_wanted
        if name == "retire":
            with self.client() as client:
                self._retire(client, asker)
        else:
            with self._lock:
                self._start_worker()
            with self.client() as client:
                client.wait_for_workers(n_workers, timeout=LONGEST_S)

    def _retire(self, client, asker):
        """Have one worker hand on what it holds and leave."""
        addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
        client.retire_workers([a for a in addresses if a != asker][:1])
