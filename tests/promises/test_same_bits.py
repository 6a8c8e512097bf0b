"""Promise 2: the same bits for any number of threads or workers, and after kills in any pass."""

import inspect
import signal

import pytest
from promises.cluster_kit import Cluster
from promises.fits import FITS, make_job
from promises.forks import fork, report_of

import streamlearn as sl

ROWS, GROUP, SAMPLE = 24_000, 1_024, 2_000


@pytest.fixture(scope="module", params=FITS)
def job(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.parquet"
    return make_job(request.param, path, ROWS, GROUP) | {"sample_rows": SAMPLE}


@pytest.fixture(scope="module")
def quiet(job):
    """The fit that nothing disturbs, on one thread."""
    return report_of(**job, threads=1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), 1) as cluster:
        yield cluster


def test_every_estimator_has_a_fit_here():
    public = {name: getattr(sl, name) for name in sl.__all__}
    fits = {name: getattr(value, "fit", None) for name, value in public.items()}
    fits |= {name: value for name, value in public.items() if inspect.isfunction(value)}
    takes = {
        name
        for name, fit in fits.items()
        if fit and "checkpoint" in inspect.signature(fit).parameters
    }
    assert takes == {fit["estimator"] for fit in FITS.values()}


@pytest.mark.slow
@pytest.mark.turns(6, 0)
@pytest.mark.parametrize("threads", [2, 4])
def test_threads(job, quiet, threads):
    assert report_of(**job, threads=threads)["digest"] == quiet["digest"]


@pytest.mark.slow
@pytest.mark.turns(12, 1)
@pytest.mark.parametrize("workers", [1, 3])
def test_worker_processes(cluster, job, quiet, workers):
    cluster.scale(workers)
    assert cluster.fit(job) == quiet["digest"]


@pytest.mark.fault
@pytest.mark.turns(5, 1)
def test_killed_in_any_pass_and_resumed(job, quiet, tmp_path):
    """Kills at eight places spread over all passes, one after the other in one checkpoint."""
    checkpoint = str(tmp_path / "run")
    stride = max(1, quiet["reads"] // 8)
    killed = 0
    for _ in range(8):
        code, _ = fork(**job, checkpoint=checkpoint, kill_at=stride)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
    last = report_of(**job, checkpoint=checkpoint)
    assert killed >= 3
    assert last["digest"] == quiet["digest"]
    again = report_of(**job, checkpoint=checkpoint)
    assert again["reads"] == 0  # a finished one is not read again


@pytest.mark.fault
@pytest.mark.turns(6, 0)
@pytest.mark.parametrize("where", [0.02, 0.4, 0.98])  # places between: the test above
def test_killed_once_at(job, quiet, tmp_path, where):
    checkpoint = str(tmp_path / "run")
    kill_at = max(1, int(where * quiet["reads"]))
    assert fork(**job, checkpoint=checkpoint, kill_at=kill_at) == (-signal.SIGKILL, None)
    assert report_of(**job, checkpoint=checkpoint)["digest"] == quiet["digest"]
