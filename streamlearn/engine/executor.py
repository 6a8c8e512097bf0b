"""The executors of a read's tasks: threads of this process, or workers of a dask cluster.

Both offer the same few verbs (`submit`, `share`, `wait`, `result`, `cancel`), and
`driver.fold_lanes` drives either in the same order, so a result does not depend on which it was.
"""

from __future__ import annotations

import concurrent.futures as cf
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .cluster import Cluster, Future, Value, reaching

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client

_INLINE = ("synchronous", "sync", "single-threaded")


class Engine(Protocol):
    """The verbs of an executor.  Futures are opaque; a future given to `submit` is a dependency."""

    @property
    def n_slots(self) -> int:
        """Tasks that may run at once."""

    n_ahead: int
    """Tasks given out beyond these: a worker that waits for this process's answer does nothing."""
    is_cluster: bool
    stop: threading.Event | None
    """Set when a read is given up; tasks of this process look at it between two chunks."""

    def submit(self, name: str, function: Callable[..., Value], *args: object) -> Future[Value]: ...
    def share(self, value: Value) -> Future[Value] | Value: ...
    def share_widely(self, value: Value) -> Future[Value] | Value: ...
    def compute(self, delayed: Delayed) -> object: ...
    def wait(self, futures: Sequence[Future[Value]]) -> list[Future[Value]]: ...
    def failed(self, future: Future[Value]) -> bool: ...
    def result(self, future: Future[Value] | Value, place: str = "") -> Value: ...
    def cancel(self, futures: Iterable[Future[Value]]) -> None: ...
    def require_shared(self, folder: str) -> None: ...
    def close(self) -> None: ...


class Lazy(NamedTuple):
    """A Delayed that the thread of the task computes itself, so that no second pool is at work."""

    delayed: Delayed


def _call(function: Callable[..., Value], args: tuple[object, ...]) -> Value:
    return function(
        *(
            arg.delayed.compute(scheduler="synchronous") if isinstance(arg, Lazy) else arg
            for arg in args
        )
    )


class Threads:
    """Threads of this process, as dask's threaded scheduler has; one task at a time: the caller's.

    A table that fits in a chunk is one task, which another thread would only be waited for.
    """

    is_cluster = False

    def __init__(self, n_threads: int) -> None:
        self.n_slots, self.n_ahead = max(1, n_threads), 0
        self.stop: threading.Event | None = threading.Event()
        self._pool = cf.ThreadPoolExecutor(n_threads, "streamlearn") if n_threads > 1 else None

    def submit(self, name: str, function: Callable[..., Value], *args: object) -> cf.Future[Value]:
        args = tuple(arg.result() if isinstance(arg, cf.Future) else arg for arg in args)
        if self._pool is not None:
            return self._pool.submit(_call, function, args)
        future: cf.Future[Value] = cf.Future()
        try:
            future.set_result(_call(function, args))
        except Exception as error:  # kept in the future, as a pool does; `result` raises it
            future.set_exception(error)
        return future

    def share(self, value: Value) -> Value:
        return value

    share_widely = share

    def compute(self, delayed: Delayed) -> Lazy:
        return Lazy(delayed)

    def wait(self, futures: Sequence[cf.Future[Value]]) -> list[cf.Future[Value]]:
        return list(cf.wait(futures, return_when=cf.FIRST_COMPLETED).done)

    def failed(self, future: cf.Future[Value]) -> bool:
        return future.exception() is not None

    def result(self, future: cf.Future[Value] | Value, place: str = "") -> Value:
        return future.result() if isinstance(future, cf.Future) else future

    def cancel(self, futures: Iterable[cf.Future[Value]]) -> None:
        assert self.stop is not None
        self.stop.set()
        for future in futures:
            future.cancel()
        cf.wait(futures)
        self.stop.clear()

    def require_shared(self, folder: str) -> None:
        return None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def find_client(scheduler: object) -> Client | None:
    """The `distributed` client to use; None = threads.  Never imports distributed on its own."""
    if scheduler is not None and not isinstance(scheduler, str):
        if not any(kind.__name__ == "Client" for kind in type(scheduler).__mro__):
            raise ValueError(
                f"scheduler must be 'threads', 'synchronous', 'distributed' or a "
                f"distributed.Client, got {type(scheduler).__name__}"
            )
        return scheduler
    if scheduler not in (None, "threads", "distributed", *_INLINE):
        raise ValueError(
            f"scheduler={scheduler!r} is not known; use 'threads', 'synchronous', 'distributed' or "
            "a distributed.Client (for processes: a Client of a LocalCluster)"
        )
    if scheduler not in (None, "distributed"):
        return None
    if "distributed" in sys.modules:
        import distributed

        try:
            distributed.get_worker()
        except ValueError:
            pass
        else:
            return None  # inside a task: waiting there for other tasks could block the cluster
        try:
            return distributed.get_client()
        except ValueError:
            pass
    if scheduler == "distributed":
        raise ValueError("scheduler='distributed' but no client is active; make a Client first")
    return None


def findable_anywhere(scheduler: object) -> object:
    """The same scheduler by what every thread can find: a client, or the name of threads."""
    import dask

    client = find_client(scheduler)
    if client is None and scheduler in (None, "distributed"):
        return dask.config.get("scheduler", None) or "threads"
    return scheduler if client is None else client


def count_threads(scheduler: object) -> int:
    """Lanes that one process could run at once under this scheduler."""
    client = find_client(scheduler)
    if client is not None:
        with reaching(client):
            return max(client.nthreads().values(), default=1)
    return _n_local_threads(scheduler) or 1


def open_engine(scheduler: object, lanes_in_flight: int) -> Engine:
    """The engine that the settings ask for, held to `lanes_in_flight` tasks a process."""
    client = find_client(scheduler)
    if client is not None:
        return Cluster(client, lanes_in_flight)
    return Threads(min(_n_local_threads(scheduler), lanes_in_flight))


def _n_local_threads(scheduler: object) -> int:
    """Dask's ``num_workers``, default one a core; 0 = run in the calling thread."""
    import dask
    from dask.system import CPU_COUNT

    if (scheduler or dask.config.get("scheduler", None)) in _INLINE:
        return 0
    return int(dask.config.get("num_workers", None) or CPU_COUNT)
