"""Promise 2: the same bits for any number of threads or workers, and after kills in any pass."""

import signal

import pytest
from promises.jobs import run, start, write_rows

FITS = {
    "newton": {"loss": "log_loss", "solver": "newton", "tol": 1e-6},
    "newton-3-classes": {"loss": "squared_hinge", "solver": "newton", "tol": 1e-5},
    "dual-cd": {"loss": "hinge", "solver": "dual-cd", "tol": 1e-3, "max_passes": 30},
    "multinomial-3-classes": {"multi_class": "multinomial", "tol": 1e-6},
    "levels": {"tol": 1e-6, "max_levels": 20},
    "cosine-dual-cd": {"basis": "cosine", "loss": "hinge", "solver": "dual-cd", "tol": 1e-2},
    "cosine": {"basis": "cosine", "tol": 1e-6},
    "pegasos": {"loss": "hinge", "solver": "pegasos", "tol": 1e-2, "max_passes": 12},
    "calibrated": {"loss": "squared_hinge", "solver": "newton", "calibration": "isotonic"},
    "dual-cd-log-3-classes": {"loss": "log_loss", "solver": "dual-cd", "max_passes": 12},
}
CHOICE = {"Cs": [0.1, 10.0], "n_bases": [4, 8], "cv": 3}
MIXTURE = {"n_components": 4, "max_passes": 8, "nu": 5.0}
FITS = {name: {"parameters": {"n_bases": 8, **fit}} for name, fit in FITS.items()} | {
    "classifier-cv": {"estimator": "AdditiveClassifierCV", "parameters": CHOICE},
    "regressor-cv": {"estimator": "AdditiveRegressorCV", "parameters": CHOICE},
    "mixture-linear-3-classes": {
        "estimator": "SVMMixtureClassifier",
        "parameters": {**MIXTURE, "gate": "linear", "expert_loss": "log_loss"},
    },
    "mixture-hinge": {
        "estimator": "SVMMixtureClassifier",
        "parameters": {**MIXTURE, "gate": "rbf", "expert_loss": "hinge"},
    },
    "mixture-online": {
        "estimator": "SVMMixtureClassifier",
        "parameters": {**MIXTURE, "algorithm": "online-em"},
    },
    "pursuit": {
        "estimator": "ProjectionPursuitRegressor",
        "parameters": {"n_terms": 3, "tau": [10.0, 100.0]},
    },
    "boosting-3-classes": {
        "estimator": "JensenShannonBoostClassifier",
        "parameters": {"n_learners": 4},
    },
    "shareboost-3-classes": {
        "estimator": "ShareBoostClassifier",
        "parameters": {"n_selected": 5, "ridge": 1e-4, "columns_per_pass": 2, "prune": True},
    },
    "shareboost-stumps": {
        "estimator": "ShareBoostClassifier",
        "parameters": {"n_selected": 3, "ridge": 1e-4, "candidates": "stumps"},
    },
    "supersparse": {
        "estimator": "SuperSparseClassifier",
        "parameters": {"n_prototypes": 3, "tol": 1e-2, "n_passes": 6},
    },
    "supersparse-cv-3-classes": {
        "estimator": "SuperSparseClassifierCV",
        "parameters": {"n_prototypes": [2, 3], "cv": 2, "tol": 1e-2, "n_passes": 5},
    },
}


@pytest.fixture(scope="module", params=FITS)
def job(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    n_classes = 3 if "classes" in request.param else 2
    levels = request.param == "levels"
    path = write_rows(folder / "rows.parquet", 24_000, 6, n_classes=n_classes, levels=levels)
    return {
        "path": path,
        "chunk_rows": 1_024,
        **FITS[request.param],
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
