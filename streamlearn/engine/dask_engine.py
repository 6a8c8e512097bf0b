"""Who runs the tasks of a read: threads of this process, or the workers of a dask cluster.

Both offer the same few verbs (`submit`, `share`, `wait`, `cancel`), and `fold_lanes` below
drives either in the same order, so a result does not depend on which it was.
"""

from __future__ import annotations

import concurrent.futures as cf
import secrets
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, log2
from typing import Any, NamedTuple, Protocol

from ..data.source import Ref
from .lanes import Job, LaneState, MergeTree, Node, fold_lane, merge_states

_INLINE = ("synchronous", "sync", "single-threaded")


class Engine(Protocol):
    """The verbs of an executor.  Futures are opaque; a future given to `submit` is a dependency."""

    @property
    def n_slots(self) -> int:
        """Tasks that may run at once."""

    is_cluster: bool
    stop: threading.Event | None
    """Set when a read is given up; tasks of this process look at it between two chunks."""

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any: ...
    def share(self, value: Any) -> Any: ...
    def compute(self, delayed: Any) -> Any: ...
    def wait(self, futures: Sequence[Any]) -> list[Any]: ...
    def cancel(self, futures: Iterable[Any]) -> None: ...
    def close(self) -> None: ...


class Lazy(NamedTuple):
    """A Delayed that the thread of the task computes itself, so that no second pool is at work."""

    delayed: Any


def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    lazy = [isinstance(arg, Lazy) for arg in args]
    return function(
        *(
            arg.delayed.compute(scheduler="synchronous") if is_lazy else arg
            for arg, is_lazy in zip(args, lazy, strict=True)
        )
    )


class Threads:
    """Threads of this process, as dask's threaded scheduler has; 0 threads = the caller's own."""

    is_cluster = False

    def __init__(self, n_threads: int) -> None:
        self.n_slots = max(1, n_threads)
        self.stop: threading.Event | None = threading.Event()
        self._pool = cf.ThreadPoolExecutor(n_threads, "streamlearn") if n_threads else None

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> cf.Future[Any]:
        args = tuple(arg.result() if isinstance(arg, cf.Future) else arg for arg in args)
        if self._pool is not None:
            return self._pool.submit(_call, function, args)
        future: cf.Future[Any] = cf.Future()
        try:
            future.set_result(_call(function, args))
        except Exception as error:  # kept in the future, as a pool does; `result` raises it
            future.set_exception(error)
        return future

    def share(self, value: Any) -> Any:
        return value

    def compute(self, delayed: Any) -> Lazy:
        return Lazy(delayed)

    def wait(self, futures: Sequence[cf.Future[Any]]) -> list[cf.Future[Any]]:
        return list(cf.wait(futures, return_when=cf.FIRST_COMPLETED).done)

    def cancel(self, futures: Iterable[cf.Future[Any]]) -> None:
        assert self.stop is not None
        self.stop.set()
        for future in futures:
            future.cancel()
        cf.wait(futures)
        self.stop.clear()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


class Cluster:
    """A `distributed` client: the same tasks on its workers, whose loss dask repairs."""

    is_cluster = True
    stop: threading.Event | None = None

    def __init__(self, client: Any, lanes_in_flight: int) -> None:
        self.client = client
        self._lanes_in_flight = lanes_in_flight
        client.wait_for_workers(1, timeout=60)

    @property
    def n_slots(self) -> int:
        return sum(min(n, self._lanes_in_flight) for n in self.client.nthreads().values())

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        key = f"{name}-{secrets.token_hex(8)}"
        return self.client.submit(function, *args, key=key, retries=2, pure=False)

    def compute(self, delayed: Any) -> Any:
        return self.client.compute(delayed, retries=2)

    def share(self, value: Any) -> Any:
        return self.client.scatter(value, broadcast=True, hash=False)

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        from distributed import wait

        return list(wait(futures, return_when="FIRST_COMPLETED").done)

    def cancel(self, futures: Iterable[Any]) -> None:
        self.client.cancel(list(futures))

    def close(self) -> None:
        return None


def find_client(scheduler: Any) -> Any:
    """The `distributed` client to use; None = threads.  Never imports distributed on its own."""
    if scheduler is not None and not isinstance(scheduler, str):
        if not hasattr(scheduler, "scatter"):
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


def count_threads(scheduler: Any) -> int:
    """Lanes that one process could run at once under this scheduler."""
    client = find_client(scheduler)
    if client is not None:
        return max(client.nthreads().values(), default=1)
    return _n_local_threads(scheduler) or 1


def open_engine(scheduler: Any, lanes_in_flight: int) -> Engine:
    """The engine that the settings ask for, held to `lanes_in_flight` tasks a process."""
    client = find_client(scheduler)
    if client is not None:
        return Cluster(client, lanes_in_flight)
    return Threads(min(_n_local_threads(scheduler), lanes_in_flight))


def _n_local_threads(scheduler: Any) -> int:
    """Dask's ``num_workers``, default one a core; 0 = run in the calling thread."""
    import dask
    from dask.system import CPU_COUNT

    if (scheduler or dask.config.get("scheduler", None)) in _INLINE:
        return 0
    return int(dask.config.get("num_workers", None) or CPU_COUNT)


def fold_lanes(
    engine: Engine,
    job: Job,
    lanes: Sequence[tuple[Ref, ...]],
    *,
    finished: Mapping[Node, LaneState],
    on_done: Callable[[Mapping[Node, Any], int, bool], None],
) -> Any:
    """Run one task per lane, merge their states by the tree; the future of the root's state.

    Lanes start in order, and the next only while the unmerged states are below their bound.

    Parameters
    ----------
    finished : dict
        Merged states kept from an earlier attempt: their lanes do not run again.
    on_done : callable
        Called with the finished unmerged states, the number of lanes just read, and whether the
        read is being given up, whenever a task ends and before an error is raised.
    """
    tree = MergeTree(len(lanes))
    shared = engine.share(job)
    n_slots = engine.n_slots
    window = n_slots + ceil(log2(max(len(lanes), 2))) + 1
    done = {lane for node in finished for lane in tree.lanes_below(node)}
    queue = deque(lane for lane in range(len(lanes)) if lane not in done)
    nodes = {tree.lift(node): engine.share(state) for node, state in finished.items()}
    running: dict[Any, Node] = {}

    def merge_ready() -> None:
        """Merge every finished state whose neighbour is finished."""
        for node in sorted(nodes):
            pair = sorted((node, tree.neighbour(node)))
            if node != tree.root and all(n in nodes for n in pair):
                left, right = (nodes.pop(n) for n in pair)
                future = engine.submit(f"{job.name}-merge", merge_states, shared, left, right)
                running[future] = tree.above(node)

    try:
        merge_ready()
        while queue or running:
            while queue and len(running) < n_slots and len(running) + len(nodes) < window:
                lane = queue.popleft()
                args = (shared, lanes[lane], None, engine.stop)
                running[engine.submit(job.name, fold_lane, *args)] = (0, lane)
            ended = engine.wait(list(running))
            failed = [future for future in ended if future.exception() is not None]
            good = [future for future in ended if future not in failed]
            n_lanes = sum(running[future][0] == 0 for future in good)
            nodes.update((tree.lift(running.pop(future)), future) for future in good)
            if failed:
                failed[0].result()
            del ended, good  # the states live in `nodes` alone
            on_done(nodes, n_lanes, False)
            merge_ready()
    except BaseException:
        engine.cancel(running)
        kept = [future for future in running if _ended_well(future)]
        nodes.update((tree.lift(running[future]), future) for future in kept)
        on_done(nodes, 0, True)
        raise
    return nodes[tree.root]


def fold_in_sequence(
    engine: Engine,
    job: Job,
    segments: Sequence[tuple[Callable[..., LaneState], tuple[Any, ...]]],
    *,
    first: int,
    state: LaneState | None,
    on_done: Callable[[Any, int], None],
) -> Any:
    """Run the tasks one after the other, each from the state of the one before; the last's future.

    `first` and `state` say where an earlier attempt came to.  `on_done(future, n)` is called when n
    segments are done.
    """
    shared = engine.share(job)
    future = engine.share(state)
    for number, (task, args) in enumerate(segments[first:], first + 1):
        future = engine.submit(job.name, task, shared, *args, future, engine.stop)
        try:
            engine.wait([future])
        except BaseException:
            engine.cancel([future])
            raise
        if future.exception() is not None:
            future.result()
        on_done(future, number)
    return future


def _ended_well(future: Any) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
