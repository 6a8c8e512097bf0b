"""A fit in a process of its own: ``python fit_job.py '{"path": ..., ...}'``.

Prints one JSON line: digest of the fitted numbers, reads of chunks, memory over the baseline, as
it is planned without a budget before a fit, and as the plan in force at the end had it.
With ``kill_at``, the process kills itself with SIGKILL before that read of a chunk.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import signal
import sys
import threading


def main(job):
    import streamlearn as sl

    if job.get("measure"):
        sl.warm()
    from streamlearn.engine import lanes
    from streamlearn.engine.memory import peak_resident_bytes

    reads, lock, read = [0], threading.Lock(), lanes.RetryingReader.read

    def counted(self, ref):
        with lock:
            reads[0] += 1
            if reads[0] == job.get("kill_at"):
                os.kill(os.getpid(), signal.SIGKILL)
        return read(self, ref)

    lanes.RetryingReader.read = counted
    if job.get("verb") == "cross_validate":
        return cross_validated(job)
    with settings(job):
        reset_peak()
        baseline = resident_bytes()
        model, data = fit(job)
        over_baseline = peak_resident_bytes() - baseline
        before = None
        if job.get("estimator") != "compress":
            before = sl.plan(model, data).peak_bytes
    return {
        "digest": digest(model),
        "reads": reads[0],
        "n_passes": int(model.n_passes_),
        "over_baseline": over_baseline,
        "planned_before": before,
        "planned": model.plan_.peak_bytes,
        "score": float(model.score(data)) if job.get("score") else None,
    }


def cross_validated(job):
    """The peak of two fits that share their reads, and what their plans allowed together."""
    from unittest.mock import patch

    import streamlearn as sl
    from streamlearn.engine.memory import peak_resident_bytes
    from streamlearn.engine.together.lockstep import Lockstep

    found, run = [], Lockstep.run

    def noted(lockstep, *functions, **options):
        found.append(lockstep)
        return run(lockstep, *functions, **options)

    with (
        settings(job),
        sl.config_context(**job.get("config", {})),
        patch.object(Lockstep, "run", noted),
    ):
        model, data = kind_of(job)(**job["parameters"]), opened(job)
        reset_peak()
        baseline = resident_bytes()
        sl.cross_validate(model, data, cv=2)
        over_baseline = peak_resident_bytes() - baseline
    planned = max(lockstep.peak_bytes for lockstep in found)
    return {"over_baseline": over_baseline, "planned": planned}


def opened(job):
    """The data of the job."""
    import streamlearn as sl

    chosen = {name: job[name] for name in ("chunk_rows", "filters") if name in job}
    data = sl.open_dataset(job["path"], target="y", **chosen)
    if "at_risk" in job:
        data = data.at_risk(**job["at_risk"])
    if "share" in job:
        data, _ = data.split(job["share"])
    return data


def kind_of(job):
    """The estimator's class, or `compress`."""
    import streamlearn as sl

    additive = "AdditiveRegressor" if job.get("regression") else "AdditiveClassifier"
    return getattr(sl, job.get("estimator", additive))


def fit(job):
    """The fitted model and its data."""
    import streamlearn as sl

    data, kind = opened(job), kind_of(job)
    parameters, checkpoint = job.get("parameters", {}), job.get("checkpoint")
    small = samples_of(job.get("sample_rows")), partitions_of(job.get("partition_nbytes"))
    with sl.config_context(**job.get("config", {})), small[0], small[1]:
        if kind is sl.compress:
            model = kind(first_column(), data, checkpoint=checkpoint, **parameters)
        else:
            model = kind(**parameters).fit(data, checkpoint=checkpoint)
    return model, data


@contextlib.contextmanager
def samples_of(n_rows):
    """Fits that begin in a sample draw so few rows: small tables are read as often as large."""
    if n_rows is None:
        yield
        return
    from unittest.mock import patch

    from streamlearn.additive.costs import sizes
    from streamlearn.mixture import needs as mixture_needs
    from streamlearn.supersparse import model as supersparse_model

    with (
        patch.object(sizes, "sample_rows", lambda size: n_rows),
        patch.object(mixture_needs, "SAMPLE_ROWS", n_rows),
        patch.multiple(supersparse_model, SAMPLE_ROWS=n_rows, ROWS_PER_ENTRY=0),
    ):
        yield


@contextlib.contextmanager
def partitions_of(nbytes):
    """Sweeps over small tables go in partitions too, of so many bytes at least."""
    if nbytes is None:
        yield
        return
    from unittest.mock import patch

    from streamlearn.additive.dual import partitions

    with patch.multiple(partitions, PARTITION_NBYTES=nbytes, MOST=4):
        yield


def first_column():
    """A model to compress: a regression on one column."""
    import numpy as np
    from sklearn.linear_model import LinearRegression

    X = np.eye(6)
    return LinearRegression().fit(X, X[:, 0])


def settings(job):
    import dask

    stack = contextlib.ExitStack()
    if job.get("workers"):
        from distributed import Client, LocalCluster

        cluster = LocalCluster(
            n_workers=job["workers"], threads_per_worker=1, processes=True, dashboard_address=None
        )
        stack.enter_context(cluster)
        stack.enter_context(Client(cluster))
    else:
        stack.enter_context(dask.config.set(num_workers=job.get("threads", 2)))
    return stack


def reset_peak():
    """Start VmHWM again from what is resident: what `warm` took for a moment is not the fit's."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def resident_bytes():
    with open("/proc/self/status") as file:
        (line,) = [line for line in file if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def digest(model):
    """A hash of every fitted number, bit by bit."""
    import numpy as np

    h = hashlib.sha256()
    certificate = model.certificate_
    parts = [model._state(), certificate.primal, certificate.dual, certificate.objective]
    if hasattr(model, "calibration_"):
        parts += [*model.calibration_.scores, *model.calibration_.values]
    if hasattr(model, "cv_results_"):
        parts.append(model.cv_results_["mean_test_score"])
    while parts:
        part = parts.pop(0)
        if isinstance(part, dict | list | tuple):
            parts[:0] = list(part.values()) if isinstance(part, dict) else list(part)
        elif dataclasses.is_dataclass(part):
            parts[:0] = list(vars(part).values())
        elif not isinstance(part, str) and part is not None:
            h.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
    return h.hexdigest()


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    print(json.dumps(main(json.loads(sys.argv[1]))))
