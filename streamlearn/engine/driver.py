"""Runs the tasks of one read on an engine and brings their states together, in a fixed order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import ceil, log2
from typing import Any

from ..data.source import Ref
from .dask_engine import Engine
from .lanes import Job, LaneState, MergeTree, Node, fold_lane, merge_states


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
