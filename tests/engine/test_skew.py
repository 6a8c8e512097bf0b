"""Lanes of very different cost: nobody waits in vain, few states wait, the bits are the same."""

import threading
from dataclasses import dataclass, field

import numpy as np
from engine_kit import Rows, RowsReader, gram_fold, open_run

from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import make_plan
from streamlearn.engine.run import Run

READ = set()
ALL_READ = threading.Event()


@dataclass(frozen=True)
class FirstIsLast(Rows):
    """The first ref arrives when all the others have been read but the last.

    That one waits for it: the unmerged states of the others are as many as the plan counts.
    """

    def reader(self):
        return FirstIsLastReader(self)


@dataclass
class FirstIsLastReader(RowsReader):
    source: Rows = field(default=None)

    def read(self, ref):
        if ref.start == 0:
            assert ALL_READ.wait(60), "other lanes wait for this one"
        else:
            READ.add(ref.start)
            if len(READ) == len(self.source.refs()) - 2:
                ALL_READ.set()
        return super().read(ref)


def test_a_lane_that_takes_as_long_as_fourteen_holds_up_none_of_them(monkeypatch):
    from streamlearn.engine.checkpoint.lanes_done import CompletedLanes

    waiting, keep = [], CompletedLanes.__call__

    def watch(self, nodes, n_lanes, closing):
        waiting.append(len(nodes))
        return keep(self, nodes, n_lanes, closing)

    monkeypatch.setattr(CompletedLanes, "__call__", watch)
    source = FirstIsLast(16 * 32)  # 16 lanes of a ref each
    plan = make_plan(source, [Needs("read", 8)], budget=1 << 30, threads=2)
    with Run(source, plan, name="skew", identity={}) as run:
        skewed = run.fold(gram_fold(3), name="gram")
    with open_run(Rows(16 * 32), None) as run:
        even = run.fold(gram_fold(3), name="gram")
    np.testing.assert_array_equal(skewed["gram"], even["gram"])
    assert max(waiting) <= 2 + 4 + 1  # slots + log2 lanes + 1
