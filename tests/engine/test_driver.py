import concurrent.futures as cf
from collections import deque

from engine_kit import Rows, gram_fold

from streamlearn.engine.driver import Task, fold_lanes
from streamlearn.engine.lanes import Job, cut_lanes, fold_lane


class OneAtATime:
    """An engine that ends its oldest task when waited for, and knows how many it was given."""

    is_cluster, stop = False, None

    def __init__(self, n_slots, n_ahead):
        self.n_slots, self.n_ahead = n_slots, n_ahead
        self.waiting, self.most = deque(), 0

    def share(self, value):
        return value

    share_widely = share

    def failed(self, future):
        return future.exception() is not None

    def submit(self, name, function, *args):
        future = cf.Future()
        self.waiting.append((future, function, args))
        self.most = max(self.most, len(self.waiting))
        return future

    def wait(self, futures):
        future, function, args = self.waiting.popleft()
        future.set_result(function(*(a.result() if isinstance(a, cf.Future) else a for a in args)))
        return [future]


def test_tasks_are_given_out_ahead_of_the_slots():
    source = Rows(1000)
    lanes = cut_lanes(source.refs())
    assert len(lanes) > 8
    states = []
    for n_slots, n_ahead in ((1, 0), (2, 0), (2, 2), (3, 2)):
        engine = OneAtATime(n_slots, n_ahead)
        root = fold_lanes(
            engine,
            Job("read", source, gram_fold(3)),
            [Task(fold_lane, (lane,), lane) for lane in lanes],
            at_once=n_slots,
            finished={},
            on_done=lambda *args: None,
            may_go_on=lambda: None,
        )
        # a merge is a task too, given out beside those of the lanes
        assert n_slots + n_ahead <= engine.most <= n_slots + n_ahead + 1
        states.append(root.result().state["gram"].tobytes())
    assert len(set(states)) == 1
