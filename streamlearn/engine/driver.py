"""Runs the tasks of one read on an engine and brings their states together, in a fixed order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import ceil, log2
from typing import Generic, NamedTuple, TypeAlias

from ..data.row_ranges import Ref
from ..errors import ClusterError
from ..passes.fold import Result, State
from .cluster import Future
from .executor import Engine
from .lanes import Job, LaneState, MergeTree, Node, merge_states, place_note

Coming: TypeAlias = "Future[LaneState[State]] | LaneState[State]"
"""The state of a task that was given out, or one that is there."""


class Task(NamedTuple, Generic[State]):
    """A part of a read that one task does, called with job, `args`, state before and signal."""

    function: Callable[..., LaneState[State]]
    args: tuple[object, ...]
    refs: Sequence[Ref]
    """The refs that it reads."""


def fold_lanes(
    engine: Engine,
    job: Job[State, Result],
    tasks: Sequence[Task[State]],
    *,
    at_once: int,
    finished: Mapping[Node, LaneState[State]],
    on_done: Callable[[Mapping[Node, Coming[State]], int, bool], None],
    may_go_on: Callable[[], None],
) -> Coming[State]:
    """Run a task for each lane, merge their states by the tree; the future of the root's state.

    Lanes start in order, and the next only while the unmerged states are below their bound.

    Parameters
    ----------
    at_once : int
        Most tasks at once where they run in this process; workers hold themselves to theirs.
    finished : dict
        Merged states kept from an earlier attempt: their lanes do not run again.
    on_done : callable
        Called with the finished unmerged states, the number of lanes just read, and whether the
        read is being given up, whenever a task ends and before an error is raised.
    may_go_on : callable
        Called whenever a task ends; raises to give the read up.
    """
    tree = MergeTree(len(tasks))
    depth = ceil(log2(max(len(tasks), 2))) + 1
    done = {lane for node in finished for lane in tree.lanes_below(node)}
    queue = deque(lane for lane in range(len(tasks)) if lane not in done)
    nodes: dict[Node, Coming[State]] = {
        tree.lift(node): engine.share(state) for node, state in finished.items()
    }
    shared = engine.share_widely(job)
    running: dict[Future[LaneState[State]], Node] = {}
    merging: dict[Future[LaneState[State]], dict[Node, Coming[State]]] = {}

    def merge_ready() -> None:
        """Merge every finished state whose neighbour is finished."""
        for node in sorted(nodes):
            pair = sorted((node, tree.neighbour(node)))
            if node != tree.root and all(n in nodes for n in pair):
                inputs = {n: nodes.pop(n) for n in pair}
                future = engine.submit(f"{job.name}-merge", merge_states, shared, *inputs.values())
                running[future], merging[future] = tree.above(node), inputs

    try:
        merge_ready()
        while queue or running:
            n_slots = engine.n_slots  # workers come and go
            if not engine.is_cluster:
                n_slots = min(n_slots, at_once)
            most = min(n_slots + engine.n_ahead, n_slots + depth - len(nodes))
            while queue and len(running) < most:
                lane = queue.popleft()
                args = (shared, *tasks[lane].args, None, engine.stop)
                running[engine.submit(job.name, tasks[lane].function, *args)] = (0, lane)
            ended = engine.wait(list(running))
            failed = [future for future in ended if engine.failed(future)]
            good = [future for future in ended if future not in failed]
            n_lanes = sum(running[future][0] == 0 for future in good)
            for future in ended:
                merging.pop(future, None)
            nodes.update((tree.lift(running.pop(future)), future) for future in good)
            if failed:
                below = tree.lanes_below(running[failed[0]])
                engine.result(failed[0], place_note(job, tasks[below.start].refs[0]))
            del ended, good, future  # the states live in `nodes` alone
            on_done(nodes, n_lanes, False)
            may_go_on()
            merge_ready()
    except ClusterError:
        raise  # what the workers held is lost with them
    except BaseException:
        engine.cancel(running)
        kept = [future for future in running if _ended_well(future)]
        nodes.update((tree.lift(running[future]), future) for future in kept)
        for future, inputs in merging.items():
            if future.cancelled():  # before it began: they are whole
                nodes.update(inputs)
        on_done(nodes, 0, True)
        raise
    return nodes[tree.root]


def fold_in_sequence(
    engine: Engine,
    job: Job[State, Result],
    segments: Sequence[Task[State]],
    *,
    first: int,
    state: LaneState[State] | None,
    on_done: Callable[[LaneState[State], int], None],
    may_go_on: Callable[[], None],
) -> LaneState[State]:
    """Run the tasks one after the other, each from the state of the one before; the last state.

    `first` and `state` say where an earlier attempt came to.  `on_done(state, n)` is called when n
    segments are done.  The state passes through this process, so that a lost worker costs one
    segment and not all since the read began.
    """
    shared = engine.share(job)
    for number, (task, args, _) in enumerate(segments[first:], first + 1):
        may_go_on()
        future = engine.submit(job.name, task, shared, *args, engine.share(state), engine.stop)
        state = None  # the task's own from here on
        try:
            engine.wait([future])
        except ClusterError:
            raise
        except BaseException:
            engine.cancel([future])
            raise
        state = engine.result(future, f"in read {job.name!r}, segment {number} of {len(segments)}")
        on_done(state, number)
    assert state is not None
    return state


def _ended_well(future: Future[State]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
