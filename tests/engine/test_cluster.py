"""What is said of a cluster that has nobody to work, without waiting for one."""

from types import SimpleNamespace

import pytest

from streamlearn.engine import cluster
from streamlearn.engine.cluster import Cluster
from streamlearn.errors import ClusterError


class Deserted:
    """A client of a scheduler without workers."""

    scheduler = SimpleNamespace(address="tcp://nowhere:1")

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
