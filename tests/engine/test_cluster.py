"""What is said of a cluster that has nobody to work, without waiting for one."""

from types import SimpleNamespace

import dask
import pytest
from distributed import Client, LocalCluster

from streamlearn.engine import cluster
from streamlearn.engine.cluster import Cluster
from streamlearn.engine.executor import count_threads
from streamlearn.errors import ClusterError


class Deserted:
    """A client of a scheduler without workers."""

    scheduler, status = SimpleNamespace(address="tcp://nowhere:1"), "running"

    def __init__(self, waits):
        self.waits = waits

    def wait_for_workers(self, n, timeout):
        if self.waits:
            raise TimeoutError

    def nthreads(self):
        return {}


def test_no_worker_comes():
    with pytest.raises(ClusterError, match="no worker has come to .*tcp://nowhere:1 within 60 s"):
        Cluster(Deserted(True), 2)


def test_all_workers_leave(monkeypatch):
    engine = Cluster(Deserted(False), 2)
    assert engine.n_slots == 1
    engine._require_workers()
    monkeypatch.setattr(cluster, "PATIENCE_S", -1.0)
    with pytest.raises(ClusterError, match="has had no workers for .*run the same line again"):
        engine._require_workers()


class Submitting:
    """A client of workers with 1 and 3 threads that notes where tasks are to go."""

    scheduler, status = SimpleNamespace(address="tcp://somewhere:1"), "running"

    def __init__(self):
        self.asked = []

    def wait_for_workers(self, n, timeout):
        pass

    def nthreads(self):
        return {"a": 1, "b": 3}

    def submit(self, function, *args, key, workers=None, allow_other_workers=False, **more):
        assert allow_other_workers == (workers is not None)  # a dead worker's task goes elsewhere
        self.asked.append((key.partition("-")[0], workers))


def test_the_first_tasks_of_a_read_go_to_every_free_place():
    client = Submitting()
    engine = Cluster(client, 2)
    engine.share_widely(0)
    assert engine.n_slots == 3
    for _ in range(5):
        engine.submit("lane", abs, 1)
    anywhere = [("lane", None)] * 2
    places = [("lane", ["a"]), ("lane", ["b"]), ("lane", ["b"])]
    assert client.asked == [("share", None), *places, *anywhere]


CALLS = {
    "n_slots": lambda engine, _: engine.n_slots,
    "submit": lambda engine, _: engine.submit("lane", abs, 1),
    "compute": lambda engine, _: engine.compute(dask.delayed(abs)(1)),
    "share": lambda engine, _: engine.share(1),
    "share_widely": lambda engine, _: engine.share_widely(1),
    "wait": lambda engine, future: engine.wait([future]),
    "result": lambda engine, future: engine.result(future),
    "cancel": lambda engine, future: engine.cancel([future]),
    "require_shared": lambda engine, _: engine.require_shared("."),
}
ASKS_NOBODY = {"n_ahead", "failed", "close", "stop", "is_cluster"}


@pytest.fixture
def lost():
    """A cluster whose client looks for its scheduler in vain, for ten minutes; a task of before."""
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as local,
        Client(local, timeout=600, set_as_default=False) as client,
    ):
        client.wait_for_workers = lambda n, timeout: None
        engine, future = Cluster(client, 1), client.submit(abs, 1)
        # as after the loss of the connection, without the reconnection that would end the wait
        client.status = "connecting"
        yield engine, future
        client.status = "running"


def test_no_call_waits_for_a_lost_scheduler(lost):
    """The client would queue what is asked, and fail only after its own timeout."""
    members = {name for name in dir(Cluster) if not name.startswith("_")}
    assert members <= set(CALLS) | ASKS_NOBODY
    for call in CALLS.values():
        with pytest.raises(ClusterError, match="scheduler .* is gone.*run the same line again"):
            call(*lost)
    with pytest.raises(ClusterError, match="scheduler .* is gone"):
        Cluster(lost[0].client, 1)
    with pytest.raises(ClusterError, match="scheduler .* is gone"):
        count_threads(lost[0].client)  # a plan asks for it before there is a read
