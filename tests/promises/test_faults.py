"""Promise 2 on a dask cluster: whatever dies, comes, fails or runs short, the bits are the same.

Every estimator of the same-bits promise; one cluster of forked processes for all of them, another
one where every result is spilled to disk, and a small one for each scheduler that is to die.  Each
has its workers killed in every kind of pass, and one of the five other faults.
"""

import multiprocessing
import re
import shutil
import signal
import tempfile
import threading

import dask
import numpy as np
import pandas as pd
import pytest
from promises.cluster_kit import ODD, SPILLING, Cluster
from promises.fits import FITS, make_job
from promises.forks import report_of
from promises.orders import repair

import streamlearn as sl
from streamlearn.engine.watch.status import read_status

pytestmark = pytest.mark.fault
ROWS, GROUP, SAMPLE = 5_000, 500, 1_000


@pytest.fixture(scope="module", autouse=True)
def short_waits():
    """A client need not try for half a minute to find a scheduler that was killed."""
    import distributed.config  # noqa: F401  its defaults come first: they would be removed again

    with dask.config.set({"distributed.comm.timeouts.connect": "10s"}):
        yield


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    """Whatever failed: no scratch folder, no thread, no process but the clusters' own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where scratch goes if not told
    before = {thread for thread in threading.enumerate() if ours(thread)}
    yield
    assert not [folder for folder in tmp_path.rglob("streamlearn-*") if folder.is_dir()]
    assert {thread for thread in threading.enumerate() if ours(thread)} <= before
    forked = multiprocessing.active_children()
    kept = [process for cluster in Cluster.running for process in cluster.processes]
    assert not [process for process in forked if process not in kept and process.is_alive()]


def ours(thread):
    return thread.name.startswith("streamlearn")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), 2) as cluster:
        cluster.scale(2)
        yield cluster


@pytest.fixture(scope="module")
def spilling(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("spilling"), 2, {**SPILLING, ODD: True}) as cluster:
        cluster.scale(2)
        yield cluster


@pytest.fixture(scope="module", params=FITS)
def name(request):
    return request.param


def job_of(name, folder):
    return make_job(name, folder / "rows.parquet", ROWS, GROUP) | {"sample_rows": SAMPLE}


@pytest.fixture
def job(name, tmp_path):
    return job_of(name, tmp_path)


@pytest.fixture(scope="module")
def quiet(name, cluster, tmp_path_factory):
    """Digest of a fit that nothing disturbs, the reads its workers did, and those of each pass."""
    job = job_of(name, tmp_path_factory.mktemp("quiet"))
    expected = report_of(**job)["digest"]
    cluster.orders.give()
    assert cluster.fit(job) == expected
    return expected, cluster.orders.n_reads, cluster.orders.passes


@pytest.mark.turns(3, 0)
def test_workers_killed_in_every_kind_of_pass(cluster, job, quiet):
    """In the first and in the last read of each kind; in one of them the next worker too."""
    expected, _, passes = quiet
    kinds = {}
    for number, name in enumerate(passes):
        kinds.setdefault(re.sub(r"\d+", "", name), []).append((number, name))
    kills = {
        name: [1 + 3 * number % passes[name]]
        for numbered in kinds.values()
        for number, name in (numbered[0], numbered[-1])
    }
    again = list(kills)[len(kills) // 2]
    kills[again].append(kills[again][0] + 1)
    cluster.orders.give(kill_in=kills)
    assert cluster.fit(job) == expected


@pytest.mark.turns(10, 0)
def test_a_worker_comes_one_is_killed_and_one_goes(cluster, job, quiet):
    expected, n, _ = quiet
    cluster.orders.give(ask={"add": n // 3, "retire": 2 * n // 3}, kill=[n // 2])
    assert cluster.fit(job) == expected


@pytest.mark.turns(10, 2)
def test_a_file_overwritten_and_put_back_and_reads_that_fail_twice(cluster, job, quiet, tmp_path):
    """A file overwritten in mid-fit is one error that names it; put back, the fit goes on."""
    expected, _, passes = quiet
    job["checkpoint"] = str(tmp_path / "run")
    # Late in the first pass, since later ones may read copies in scratch.  The change is noticed at
    # once, so that how much of the pass was kept by then depends on the workers' pace.
    cluster.orders.give(damage=[next(iter(passes.values()))], path=job["path"])
    with pytest.raises(sl.SourceError, match=r"rows\.parquet has changed since") as caught:
        cluster.fit(job)
    assert "Traceback" not in str(caught.value)
    repair(job["path"])
    # as it was, but for the time of the rename, which could hide a change: the user vouches for it
    job["config"] = {**job.get("config", {}), "trust_copies": True}
    cluster.orders.give(flaky=[3, 7, 15])
    assert cluster.fit(job) == expected


@pytest.mark.turns(10, 4)
def test_the_driver_killed_and_run_again_on_another_cluster(cluster, job, quiet, tmp_path):
    expected, n, _ = quiet
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
        assert cluster.fit(job) == expected
        assert cluster.orders.n_reads < n
        assert not list(scratch.glob("*"))  # nor what the killed one had there
    finally:
        cluster.scale(2)


@pytest.mark.turns(10, 6)
def test_a_scheduler_that_dies_is_one_error_and_the_fit_goes_on(cluster, job, quiet, tmp_path):
    expected, n, _ = quiet
    job["checkpoint"] = str(tmp_path / "run")
    with Cluster(tmp_path / "doomed", 1) as doomed:
        doomed.orders.give(end=[n // 2], pid=doomed.scheduler.pid)
        with pytest.raises(sl.ClusterError, match="scheduler.*gone.*run the same line again"):
            doomed.fit(job)
    cluster.orders.give()
    assert cluster.fit(job) == expected
    assert cluster.orders.n_reads < n


@pytest.mark.turns(10, 8)
def test_results_spilled_and_workers_paused(spilling, job, quiet):
    """What comes back from disk, or from the other worker, lies at odd addresses."""
    expected, n, _ = quiet
    spilling.orders.give(pause=[n // 3, n // 2])
    assert spilling.fit(job) == expected


@pytest.mark.parametrize("what", ["spline", "fourier", "cross-validate", "predict-to"])
def test_what_is_no_estimator_with_workers_killed(cluster, tmp_path, what):
    """Twice: in the first reads, and in later ones."""
    data = sl.open_dataset(job_of("newton", tmp_path)["path"], target="y", chunk_rows=GROUP)
    work = WORK[what](data, tmp_path)
    expected = work()
    cluster.orders.give()
    with cluster.client() as client, sl.config_context(scheduler=client):
        np.testing.assert_array_equal(work(), expected)
        n = cluster.orders.n_reads
        cluster.orders.give(kill=[2, max(3, n - 1)])
        np.testing.assert_array_equal(work(), expected)
    assert cluster.orders.n_reads > n  # the killed ones were read again


def embedding_of(kind):
    def make(data, folder):
        def fit():
            model = kind(n_bases=4).fit(data)
            arrays = [a for a in model.bases_ if isinstance(a, np.ndarray)]
            return np.concatenate([a.ravel().astype(np.float64) for a in arrays])

        return fit

    return make


def scores_of(data, folder):
    model = sl.AdditiveClassifier(n_bases=4, tol=1e-5)
    return lambda: sl.cross_validate(model, data, 3, {"C": [0.1, 1.0]}).scores


def predictions_of(data, folder):
    model = sl.AdditiveClassifier(n_bases=4).fit(data)

    def write():
        place = folder / "answers.parquet"
        shutil.rmtree(place, ignore_errors=True)
        model.predict_to(data.select(list(model.feature_names_in_)), place)
        return pd.read_parquet(place).to_numpy(np.float64)

    return write


WORK = {
    "spline": embedding_of(sl.SplineEmbedding),
    "fourier": embedding_of(sl.FourierEmbedding),
    "cross-validate": scores_of,
    "predict-to": predictions_of,
}


def test_a_lane_that_kills_every_worker_is_named(cluster, tmp_path):
    job = job_of("newton", tmp_path)
    cluster.orders.give(kill=list(range(1, 1000)))
    with pytest.raises(sl.ClusterError, match=r"4 workers died.*rows \d+ to \d+.*memory_limit"):
        cluster.fit(job)
    cluster.orders.give()
    cluster.scale(2)


def test_nothing_is_left_behind(tmp_path):
    with Cluster(tmp_path / "short", 2) as cluster:
        cluster.scale(2)
        workers = list(cluster._workers)
    assert not any(process.is_alive() for process in [*workers, cluster.scheduler])
