"""Promise 2: the same bits for any number of threads or workers, and after kills in any pass."""

import signal

import pytest
from promises.jobs import run, start, write_rows

FITS = {
    "newton": {"loss": "log_loss", "solver": "newton", "tol": 1e-6},
    "newton-3-classes": {"loss": "squared_hinge", "solver": "newton", "tol": 1e-5},
    "dual-cd": {"loss": "hinge", "solver": "dual-cd", "tol": 1e-3, "max_passes": 30},
    "calibrated": {"loss": "squared_hinge", "solver": "newton", "calibration": "isotonic"},
    "classifier-cv": {"Cs": [0.1, 10.0], "n_bases": [4, 8], "cv": 3},
    "regressor-cv": {"Cs": [0.1, 10.0], "n_bases": [4, 8], "cv": 3},
    "dual-cd-log-3-classes": {"loss": "log_loss", "solver": "dual-cd", "max_passes": 12},
}


ESTIMATORS = {"classifier-cv": "AdditiveClassifierCV", "regressor-cv": "AdditiveRegressorCV"}


@pytest.fixture(scope="module", params=FITS)
def job(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    n_classes = 3 if "classes" in request.param else 2
    path = write_rows(folder / "rows.parquet", 24_000, 6, n_classes=n_classes)
    return {
        "path": path,
        "chunk_rows": 1_024,
        "parameters": {"n_bases": 8, **FITS[request.param]},
        "estimator": ESTIMATORS.get(request.param, "AdditiveClassifier"),
    }


@pytest.fixture(scope="module")
def quiet(job):
    """The fit that nothing disturbs, on one thread."""
    return run(**job, threads=1)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 4])
def test_threads(job, quiet, threads):
    assert run(**job, threads=threads)["digest"] == quiet["digest"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_worker_processes(job, quiet, workers):
    assert run(**job, workers=workers)["digest"] == quiet["digest"]


@pytest.mark.fault
def test_killed_in_any_pass_and_resumed(job, quiet, tmp_path):
    """Kills at eight places spread over all passes, one after the other in one checkpoint."""
    checkpoint = str(tmp_path / "run")
    stride = max(1, quiet["reads"] // 8)
    killed = 0
    for _ in range(8):
        done = start(**job, checkpoint=checkpoint, kill_at=stride)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr[-4000:]
        killed += 1
    last = run(**job, checkpoint=checkpoint)
    assert killed >= 3
    assert last["digest"] == quiet["digest"]
    assert run(**job, checkpoint=checkpoint)["reads"] == 0  # a finished one is not read again


@pytest.mark.fault
@pytest.mark.parametrize("where", [0.02, 0.2, 0.4, 0.6, 0.8, 0.98])
def test_killed_once_at(job, quiet, tmp_path, where):
    checkpoint = str(tmp_path / "run")
    done = start(**job, checkpoint=checkpoint, kill_at=max(1, int(where * quiet["reads"])))
    assert done.returncode == -signal.SIGKILL, done.stderr[-4000:]
    assert run(**job, checkpoint=checkpoint)["digest"] == quiet["digest"]
