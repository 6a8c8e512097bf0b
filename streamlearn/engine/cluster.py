"""The tasks of a read on the workers of a dask cluster, which may come, go and die."""

from __future__ import annotations

import concurrent.futures as cf
import contextlib
import pickle
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ..errors import ClusterError, ScratchError
from .aligned import aligned, in_one_piece
from .scratch.folder import probe_file, see_probe

if TYPE_CHECKING:
    import distributed
    from dask.delayed import Delayed

Value = TypeVar("Value")
Future: TypeAlias = "cf.Future[Value] | distributed.Future"
"""A task that was given out, to a thread of this process or to a worker of a cluster."""

_COUNTED_S = 2.0
"""Seconds for which a count of the workers' threads is trusted: workers come and go."""
_LOOK_S = 10.0
"""A wait longer than this looks whether there still are workers."""
PATIENCE_S = 600.0
"""Seconds that a read waits for a cluster that has no workers."""
_REMEDY = "start a cluster and run the same line again: with checkpoint= the fit goes on"


def address_of(client: distributed.Client) -> str:
    """The scheduler's address; of a client that is closed, and has none, what it says of itself."""
    try:
        return str(client.scheduler.address)
    except AttributeError:
        return str(client)


@contextmanager
def reaching(client: distributed.Client, *, from_task: bool = False) -> Iterator[None]:
    """A lost scheduler is one error, wherever and however it is noticed."""
    from distributed import CancelledError
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    try:
        if client.status == "connecting":
            # What it awaited is lost with the connection, and what it would send now waits for
            # a scheduler until the client's own timeout, which may be hours.
            raise CommClosedError("the client has lost its connection")
        yield
    except (CancelledError, OSError, ClosedClientError) as error:
        is_ours = isinstance(error, OSError) and not isinstance(error, CommClosedError)
        if from_task and is_ours:
            raise
        raise ClusterError(
            f"the scheduler of the dask cluster at {address_of(client)} is gone, or its client was "
            f"closed ({type(error).__name__}); {_REMEDY}"
        ) from error


class Cluster:
    """A `distributed` client: the same tasks on its workers, whose loss dask repairs.

    What tasks share is the result of a task too, not scattered data: dask makes it again where the
    workers that held it died.
    """

    is_cluster = True
    stop: threading.Event | None = None

    def __init__(self, client: distributed.Client, lanes_in_flight: int) -> None:
        self.client = client
        self._lanes_in_flight = lanes_in_flight
        self._shared: set[str] = set()
        self._n_slots, self.n_ahead, self._counted = 1, 1, 0.0
        self._homes: list[str] = []
        self._first_homes: list[str] = []
        self._deserted: float | None = None
        with self._reaching():
            try:
                client.wait_for_workers(1, timeout=60)
            except TimeoutError:
                raise ClusterError(
                    f"no worker has come to the cluster at {self._address} within 60 s; start "
                    "workers, or pass scheduler='threads'"
                ) from None

    @property
    def _address(self) -> str:
        return address_of(self.client)

    @property
    def n_slots(self) -> int:
        """Lanes that the workers of this moment may run; 1 if there are none for a while."""
        if time.monotonic() >= self._counted + _COUNTED_S:
            with self._reaching():
                threads = self.client.nthreads()
            self._homes = [
                address
                for lane in range(self._lanes_in_flight)
                for address, n in threads.items()
                if lane < n
            ]
            self._n_slots = max(1, len(self._homes))
            self.n_ahead = max(1, len(threads))
            self._counted = time.monotonic()
            if threads:
                self._deserted = None
        return self._n_slots

    def submit(
        self, name: str, function: Callable[..., object], *args: object
    ) -> distributed.Future:
        # the dashboard shows a key up to the first word after a dash that is no letters: no dashes,
        # so that it tells pass 3 from pass 4
        key = f"{name.replace('-', '_')}-{secrets.token_hex(8)}"
        more: dict[str, object] = {"key": key, "retries": 2, "pure": False}
        if self._first_homes:
            more |= {"workers": [self._first_homes.pop(0)], "allow_other_workers": True}
        with self._reaching():
            return self.client.submit(function, *args, **more)

    def compute(self, delayed: Delayed) -> distributed.Future:
        with self._reaching():
            return self.client.compute(delayed, retries=2)

    def share_widely(self, value: object) -> distributed.Future | None:
        """`share`; and the next tasks go to one free place each.

        Where the value lies they would all queue, until dask looks for idle workers: 0.15 s a read.
        """
        self._first_homes = []
        shared, n = self.share(value), self.n_slots
        self._first_homes = self._homes[:n]
        return shared

    def share(self, value: object) -> distributed.Future | None:
        """A task whose result is `value`: sent once, handed from worker to worker."""
        import dask

        if value is None:
            return None
        content = in_one_piece(value)
        # its size is in the plan; the warning is for data put into graphs by mistake
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
            return self.submit("share", pickle.loads, content)

    def wait(self, futures: Sequence[distributed.Future]) -> list[distributed.Future]:
        from distributed import wait

        while True:
            # `wait` asks the current client, which a client passed as scheduler= need not be
            with self._reaching(), contextlib.suppress(TimeoutError), self.client.as_current():
                return list(wait(futures, timeout=_LOOK_S, return_when="FIRST_COMPLETED").done)
            self._require_workers()

    def failed(self, future: distributed.Future) -> bool:
        return bool(future.status != "finished")  # known here; to ask for the exception is a trip

    def _require_workers(self) -> None:
        """Nothing ended for a while: give up if there has been nobody to do it for long."""
        with self._reaching():
            if self.client.nthreads():
                self._deserted = None
                return
        self._deserted = self._deserted or time.monotonic()
        if time.monotonic() > self._deserted + PATIENCE_S:
            raise ClusterError(
                f"the cluster at {self._address} has had no workers for {PATIENCE_S:.0f} s; "
                f"{_REMEDY}"
            )

    def result(self, future: distributed.Future, place: str = "") -> Any:
        from distributed import KilledWorker

        seconds = _LOOK_S
        while True:  # the worker that has the result may die before it is sent, and be the last
            with self._reaching(from_task=True):
                try:
                    return aligned(future.result(timeout=seconds))
                except TimeoutError:
                    if future.status == "error":  # the task's own
                        raise
                except KilledWorker as error:
                    last = error.last_worker.address
                    raise ClusterError(
                        f"{error.allowed_failures + 1} workers died one after the other {place}, "
                        f"the last {last}; most often they were killed for lack of memory: lower "
                        "memory_budget or raise the workers' memory_limit, see their logs, and run "
                        "the same line again: with checkpoint= the fit goes on"
                    ) from error
            self._require_workers()
            seconds *= 2  # a long transfer begins anew

    def cancel(self, futures: Iterable[distributed.Future]) -> None:
        with self._reaching():
            self.client.cancel(list(futures))

    def _reaching(self, *, from_task: bool = False) -> AbstractContextManager[None]:
        return reaching(self.client, from_task=from_task)

    def require_shared(self, folder: str) -> None:
        """Each worker must find what this process writes there, and write beside it."""
        if not folder or folder in self._shared:
            return
        mark = secrets.token_hex(8)
        with probe_file(folder, mark), self._reaching():
            # a worker that dies meanwhile is none of this folder's faults
            found = self.client.run(see_probe, folder, mark, on_error="ignore")
        blind = sorted(address for address, error in found.items() if error)
        if blind:
            raise ScratchError(
                f"folder {folder} must be shared by all workers of the cluster, but {len(blind)} "
                f"of {len(found)} cannot use it, the first {blind[0]}: {found[blind[0]]}; pass a "
                'folder on shared storage as checkpoint= or config_context(scratch="...")'
            )
        self._shared.add(folder)

    def close(self) -> None:
        return None
