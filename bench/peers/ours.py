"""`AdditiveClassifier` from disk under a memory budget, on threads or on a two-process cluster."""

import time
import warnings

from bench.job import memory, reset_peak

AS_RIVALS = {"C": 1.0, "interactions": 0}
"""What ours is given beside rivals that have one strength of the penalty and no pairs."""
SAID = "Ours has C=1 and interactions=0 where a row says nothing else, as its rivals have."


def prepare(*, cluster=0, **options):
    import streamlearn

    start = time.perf_counter()
    streamlearn.warm()
    report = {"warm_s": time.perf_counter() - start}
    if not cluster:
        report["warm_peak_bytes"] = memory("VmHWM")
        reset_peak()
    return report


def run(report, *, task, budget, threads, cluster=0, scratch=None, **model_options):
    from sklearn.exceptions import ConvergenceWarning

    import streamlearn
    from bench import data

    model_options.pop("seed", None)
    # and as many splines as the rivals' tables have, unless a row says otherwise
    model = streamlearn.AdditiveClassifier(**{**AS_RIVALS, "n_bases": 20, **model_options})
    config = {"memory_budget": budget}
    if scratch is not None:
        config["scratch"] = scratch

    report["reads"] = time_reads()

    def fit():
        start = time.perf_counter()
        with streamlearn.config_context(**config), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the gap is in the table
            model.fit(streamlearn.open_dataset(task["train"], target=task["target"]))
        report["fit_s"] = time.perf_counter() - start

    if cluster:
        with workers(cluster) as client:
            before = client.run(warm_worker)
            fit()
            after = client.run(memory, "VmHWM")
            report["worker_over_baseline_bytes"] = max(after[w] - before[w] for w in before)
    else:
        fit()
    certificate = model.certificate_
    report |= {
        "relative_gap": float(certificate.relative_gap),
        "n_passes": int(model.n_passes_),
        "seconds": float(certificate.seconds),
        "rows_read": int(certificate.rows_read),
        "bytes_read": int(certificate.bytes_read),
        "solver": certificate.solver,
    }

    def score():
        y = data.labels(task, "test")
        test = streamlearn.open_dataset(task["test"], target=task["target"])
        if hasattr(model, "predict_proba"):
            return data.scores(y, model.classes_, model.predict_proba(test))
        return data.scores(y, model.classes_, predicted=model.predict(test))

    return score


def time_reads():
    """A list that gets kind, name, seconds and CPU seconds of every read of data from now on.

    `inside`: the read is a part of another one, which has its seconds too.
    """
    from functools import wraps

    from streamlearn.engine.run import Run

    reads, open_reads = [], []

    def timed(kind):
        method = getattr(Run, kind)

        @wraps(method)
        def read(*args, name, **options):
            open_reads.append(name)
            start, cpu = time.perf_counter(), time.process_time()
            try:
                result = method(*args, name=name, **options)
            finally:
                open_reads.pop()
            took = {"s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
            reads.append({"kind": kind, "name": name, "inside": bool(open_reads), **took})
            return result

        setattr(Run, kind, read)

    for kind in ("fold", "sweep", "cache"):
        timed(kind)
    return reads


def workers(n):
    """A client of a fresh local cluster of `n` processes with one thread each."""
    from contextlib import ExitStack

    from distributed import Client, LocalCluster

    class Both(ExitStack):
        def __enter__(self):
            cluster = self.enter_context(
                LocalCluster(
                    n_workers=n, threads_per_worker=1, processes=True, dashboard_address=None
                )
            )
            return self.enter_context(Client(cluster))

    return Both()


def warm_worker():
    """Promise 1's baseline, in a worker: resident memory after import and warm."""
    import streamlearn

    streamlearn.warm()
    reset_peak()
    return memory("VmRSS")
