"""Workers of a dask cluster whose nannies are off: nobody starts one again when it dies.

In `test_faults` those that die are replaced.  Here a fit goes on with those that are left, and ends
in one error by name where none is.
"""

import time

import pytest
from promises.cluster_kit import Cluster
from promises.fits import FITS, make_job
from promises.forks import report_of

import streamlearn as sl
from streamlearn.engine import cluster as engine_cluster

pytestmark = pytest.mark.fault
ROWS, GROUP, SAMPLE = 5_000, 500, 1_000


@pytest.fixture(params=FITS)
def job(request, tmp_path):
    found = make_job(request.param, tmp_path / "rows.parquet", ROWS, GROUP)
    return found | {"sample_rows": SAMPLE}


@pytest.mark.turns(6, 0)
def test_the_bits_are_the_same_when_one_of_two_dies_and_none_comes(job, tmp_path):
    expected = report_of(**job)["digest"]
    with Cluster(tmp_path / "bare", 2) as cluster:
        cluster.scale(2)
        cluster.replaces_dead = False
        cluster.orders.give(kill=[3])
        assert cluster.fit(job) == expected
        assert len(cluster.alive()) == 1
        assert cluster.fit(job) == expected  # a fit that begins with one


def test_a_result_that_died_with_the_last_worker_is_waited_for_no_longer(tmp_path, monkeypatch):
    """The task has ended and its worker dies before the result is fetched."""
    monkeypatch.setattr(engine_cluster, "PATIENCE_S", 0.5)
    monkeypatch.setattr(engine_cluster, "_LOOK_S", 0.2)
    with Cluster(tmp_path / "bare", 1) as cluster, cluster.client() as client:
        cluster.scale(1)
        cluster.replaces_dead = False
        engine = engine_cluster.Cluster(client, 1)
        future = engine.submit("sum", sum, [1, 2])
        assert engine.wait([future]) == [future]
        assert engine.result(future) == 3
        (worker,) = cluster.alive()
        worker.kill()
        worker.join()
        with pytest.raises(sl.ClusterError, match="no workers for 0 s; start a cluster"):
            engine.result(future)


def test_an_error_of_time_in_a_task_is_the_tasks_own(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_cluster, "_LOOK_S", 0.2)
    with Cluster(tmp_path / "bare", 1) as cluster, cluster.client() as client:
        cluster.scale(1)
        engine = engine_cluster.Cluster(client, 1)
        slow = engine.submit("slow", slowly, 1.0)
        assert engine.result(slow) == "at last"
        late = engine.submit("late", late_answer)
        with pytest.raises(TimeoutError, match="the store does not answer"):
            engine.result(late)


def slowly(seconds):
    time.sleep(seconds)
    return "at last"


def late_answer():
    raise TimeoutError("the store does not answer")


def test_the_last_worker_that_dies_is_one_error_and_the_fit_goes_on(tmp_path, monkeypatch):
    """With a checkpoint, once there are workers again."""
    monkeypatch.setattr(engine_cluster, "PATIENCE_S", 0.5)
    monkeypatch.setattr(engine_cluster, "_LOOK_S", 0.2)
    job = make_job("newton", tmp_path / "rows.parquet", ROWS, GROUP)
    expected = report_of(**job)["digest"]
    job["checkpoint"] = str(tmp_path / "run")
    with Cluster(tmp_path / "bare", 2) as cluster:
        cluster.scale(2)
        cluster.replaces_dead = False
        cluster.orders.give(kill=[3, 4, 5, 6])
        with pytest.raises(sl.ClusterError, match=r"no workers for 0 s; start a cluster and run"):
            cluster.fit(job)
        assert not cluster.alive()
        cluster.orders.give()
        cluster.replaces_dead = True
        cluster.scale(2)
        assert cluster.fit(job) == expected
