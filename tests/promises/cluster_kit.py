"""A dask cluster of forked processes whose workers obey orders, and are replaced when they die."""

import threading
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from promises.forks import CONTEXT, end_with_the_tests
from promises.orders import LONGEST_S, Orders, obey

SPILLING = {
    "distributed.worker.memory.target": 1e-10,
    "distributed.worker.memory.spill": 1e-5,
    "distributed.worker.memory.max-spill": False,
}
"""Every result goes to disk at once and comes back when it is asked for."""
ODD = "streamlearn-tests.odd-addresses"


def run_scheduler(pipe):
    import asyncio

    from distributed import Scheduler

    async def main():
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
            pipe.send(scheduler.address)
            await scheduler.finished()

    end_with_the_tests()
    asyncio.run(main())


def use_odd_addresses():
    """From now on arrays that come to this process, from others or from disk, are not aligned."""
    from distributed.protocol.serialize import families

    def moved(frame):
        size = memoryview(frame).nbytes
        buffer = bytearray(size + 1 + 16)
        start = 1 + -np.frombuffer(buffer, np.uint8).ctypes.data % 16
        place = memoryview(buffer)[start : start + size]
        place[:] = memoryview(frame).cast("B")
        return place

    def moving(load, header, frames, *args):
        return load(header, [moved(frame) for frame in frames], *args)

    for name in ("dask", "pickle"):
        dump, load, has_context = families[name]
        families[name] = dump, partial(moving, load), has_context


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
    if config.get(ODD):
        use_odd_addresses()
    asyncio.run(main())


def run_driver(address, job, pipe):
    """One fit, in a process that may be killed; begins when the pipe says so."""
    from distributed import Client
    from promises.fit_job import digest, fit

    end_with_the_tests()
    warnings.simplefilter("ignore")
    pipe.recv()
    with Client(address):
        pipe.send(digest(fit(job)[0]))


class Cluster:
    """A scheduler and workers; `scale` keeps as many alive, whatever kills them."""

    running = []
    """Clusters that have not been left."""

    def __init__(self, folder, n_workers, config=None):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.orders = Orders(self.folder / "orders")
        self._config = config or {}
        self.replaces_dead = True
        """Whether workers that die are replaced, as those are that have a nanny."""
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
        self.running.append(self)

    def __enter__(self):
        return self

    @property
    def processes(self):
        with self._lock:
            return [self.scheduler, *self._workers]

    def __exit__(self, *exc):
        self._end.set()
        self._keeper.join()
        for process in [*self._workers, self.scheduler]:
            process.kill()
            process.join()
        self.running.remove(self)

    def alive(self):
        """The workers that run."""
        with self._lock:
            return [process for process in self._workers if process.is_alive()]

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

    def fit(self, job):
        """Digest of a fit from this process."""
        from promises.fit_job import digest, fit

        import streamlearn as sl

        with (
            warnings.catch_warnings(),
            self.client() as client,
            sl.config_context(scheduler=client),
        ):
            warnings.simplefilter("ignore")  # these fits are short
            return digest(fit(job)[0])

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
            if self.replaces_dead:
                self._replace_dead()
            for asked in self.orders.folder.glob("asked-*"):
                if asked.suffix:
                    continue
                self._answer(asked.name.partition("-")[2], asked.read_text())
                asked.rename(asked.with_name(asked.name.replace("asked", "answered")))

    def _replace_dead(self):
        with self._lock:
            self._workers = [p for p in self._workers if p.is_alive()]
            while len(self._workers) < self.n_wanted and self.scheduler.is_alive():
                self._start_worker()

    def _start_worker(self):
        arguments = self.address, str(self.folder), str(self.orders.folder), self._config
        worker = CONTEXT.Process(target=run_worker, args=arguments, daemon=True)
        worker.start()
        self._workers.append(worker)

    def _answer(self, name, asker):
        with self._lock:
            self.n_wanted += 1 if name == "add" else -1
            n_workers = self.n_wanted
        with self.client() as client:
            if name == "retire":
                self._retire(client, asker)
                return
            while len(client.scheduler_info(n_workers=-1)["workers"]) < n_workers:
                self._replace_dead()  # one may be killed meanwhile
                self._end.wait(0.02)

    def _retire(self, client, asker):
        """Have one worker hand on what it holds and leave."""
        addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
        client.retire_workers([a for a in addresses if a != asker][:1])
