"""Promise 2 on a dask cluster: whatever dies, comes, fails or runs short, the bits are the same.

Every estimator of the same-bits promise; one cluster of forked processes for all of them, another
one where every result is spilled to disk, and a small one for each scheduler that is to die.
"""

import signal
import warnings

import dask
import pytest
from promises.cluster_kit import SPILLING, Cluster, repair
from promises.fit_job import digest, fit
from promises.jobs import write_rows
from promises.test_same_bits import FITS

import streamlearn as sl
from streamlearn.engine.status import read_status

pytestmark = pytest.mark.fault
ROWS, GROUP = 6_000, 500


@pytest.fixture(scope="module", autouse=True)
def short_waits():
    """A client need not try for half a minute to find a scheduler that was killed."""
    with dask.config.set({"distributed.comm.timeouts.connect": "10s"}):
        yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), 2) as cluster:
        cluster.scale(2)
        yield cluster


@pytest.fixture(scope="module")
def spilling(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("spilling"), 2, SPILLING) as cluster:
        cluster.scale(2)
        yield cluster


@pytest.fixture(scope="module", params=FITS)
def name(request):
    return request.param


def make_job(name, path):
    n_classes = 3 if "classes" in name else 2
    levels = name == "levels"
    path = write_rows(path, ROWS, 6, row_group=GROUP, n_classes=n_classes, levels=levels)
    return {"path": path, "chunk_rows": GROUP, **FITS[name]}


@pytest.fixture
def job(name, tmp_path):
    return make_job(name, tmp_path / "rows.parquet")


@pytest.fixture(scope="module")
def quiet(name, cluster, tmp_path_factory):
    """Digest of a fit that nothing disturbs, and the reads its workers did."""
    job = make_job(name, tmp_path_factory.mktemp("quiet") / "rows.parquet")
    with sl.config_context(scheduler="threads"):
        expected = fitted(job)
    cluster.orders.give()
    assert on(cluster, job) == expected
    return expected, cluster.orders.n_reads


def fitted(job):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these fits are short
        return digest(fit(job)[0])


def on(cluster, job):
    with cluster.client() as client, sl.config_context(scheduler=client):
        return fitted(job)


def test_workers_killed_in_one_pass_after_another(cluster, job, quiet):
    """Both at once, one twice in a row, in the first read and in the last."""
    expected, n = quiet
    cluster.orders.give(kill=[2, n // 4, n // 4 + 1, n // 2 + 3, 3 * n // 4, n])
    assert on(cluster, job) == expected


def test_a_worker_comes_one_is_killed_and_one_goes(cluster, job, quiet):
    expected, n = quiet
    cluster.orders.give(ask={"add": n // 3, "retire": 2 * n // 3}, kill=[n // 2])
    assert on(cluster, job) == expected


def test_a_read_that_never_works_and_then_fails_twice(cluster, job, quiet, tmp_path):
    """One error naming file and row group, the checkpoint kept; mended, it goes on from there."""
    expected, _ = quiet
    job["checkpoint"] = str(tmp_path / "run")
    cluster.orders.give(damage=[4], path=job["path"])
    with pytest.raises(sl.SourceError, match=r"rows\.parquet, row group 11") as caught:
        on(cluster, job)
    assert "Traceback" not in str(caught.value)
    assert read_status(job["checkpoint"]).reading is not None
    repair(job["path"])
    cluster.orders.give(flaky=[3, 7, 15])
    assert on(cluster, job) == expected


def test_the_driver_killed_and_run_again_on_another_cluster(cluster, job, quiet, tmp_path):
    expected, n = quiet
    scratch = tmp_path / "scratch"
    job |= {"checkpoint": str(tmp_path / "run"), "config": {"scratch": str(scratch)}}
    process, pipe = cluster.driver(job)
    cluster.orders.give(end=[2 * n // 3], pid=process.pid)
    pipe.send("begin")
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert read_status(job["checkpoint"]).state == "stopped"
    cluster.orders.give()
    cluster.scale(3)
    try:
        assert on(cluster, job) == expected
        assert cluster.orders.n_reads < n
        assert not list(scratch.glob("*"))  # nor what the killed one had there
    finally:
        cluster.scale(2)


def test_a_scheduler_that_dies_is_one_error_and_the_fit_goes_on(cluster, job, quiet, tmp_path):
    expected, n = quiet
    job["checkpoint"] = str(tmp_path / "run")
    with Cluster(tmp_path / "doomed", 1) as doomed:
        doomed.orders.give(end=[n // 2], pid=doomed.scheduler.pid)
        with pytest.raises(sl.ClusterError, match="scheduler.*gone.*run the same line again"):
            on(doomed, job)
    cluster.orders.give()
    assert on(cluster, job) == expected
    assert cluster.orders.n_reads < n


def test_results_spilled_and_workers_paused(spilling, job, quiet):
    expected, n = quiet
    spilling.orders.give(pause=[n // 3, n // 2])
    assert on(spilling, job) == expected


def test_a_lane_that_kills_every_worker_is_named(cluster, tmp_path):
    path = write_rows(tmp_path / "rows.parquet", ROWS, 6, row_group=GROUP)
    job = {"path": path, "chunk_rows": GROUP, "parameters": {"n_bases": 8}}
    cluster.orders.give(kill=list(range(1, 1000)))
    with pytest.raises(sl.ClusterError, match=r"4 workers died.*rows \d+ to \d+.*memory_limit"):
        on(cluster, job)
    cluster.orders.give()
    cluster.scale(2)


def test_nothing_is_left_behind(tmp_path):
    with Cluster(tmp_path / "short", 2) as cluster:
        cluster.scale(2)
        workers = list(cluster._workers)
    assert not any(process.is_alive() for process in [*workers, cluster.scheduler])
