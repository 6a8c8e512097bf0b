"""Fits on one thread or on a cluster of processes, and reads that do nothing but be many lanes."""

import time
import warnings
from contextlib import ExitStack, nullcontext
from hashlib import sha256

import numpy as np

from bench.peers.ours import time_reads, warm_worker, workers


def prepare(**options):
    import streamlearn

    streamlearn.warm()


def run(report, *, what, **options):
    (fits if what == "fit" else lanes)(report, **options)


def fits(report, *, task, estimator, parameters, processes, budget, **options):
    """One fit; ``processes=0``: on one thread of this process.

    With workers this process is as it comes: between reads it computes on all its threads.
    """
    import dask

    import streamlearn as sl

    report["reads"] = time_reads()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # few passes: the criterion is not what is measured
        stack.enter_context(sl.config_context(memory_budget=budget))
        if processes:
            stack.enter_context(workers(processes)).run(warm_worker)
        else:
            stack.enter_context(dask.config.set(num_workers=1))
        model = getattr(sl, estimator)(**parameters)
        dataset = sl.open_dataset(task["train"], target=task["target"])
        start = time.perf_counter()
        model.fit(dataset)
        report["fit_s"] = time.perf_counter() - start
    if estimator == "AdditiveClassifier":
        report["bits"] = sha256(np.ascontiguousarray(model.coef_)).hexdigest()[:12]
        report["gap"] = float(model.certificate_.relative_gap)
        report["partitions"] = model.plan_.partitions
    report["n_passes"] = int(model.n_passes_)
    report["bytes_read"] = int(model.certificate_.bytes_read)
    report["rows_read"] = int(model.certificate_.rows_read)


def lanes(report, *, n_lanes, processes, **options):
    """One read of as many lanes, a row each."""
    from streamlearn.engine.driver import Task, fold_lanes
    from streamlearn.engine.lanes import Job, fold_lane
    from streamlearn.passes.fold import Fold

    with workers(processes) if processes else nullcontext() as client:
        engine = open_one(client)
        job = Job("scaling-lanes", Numbers(), Fold(float, add_first, add), slots=slots(client))
        tasks = [Task(fold_lane, ((ref,),), (ref,)) for ref in Numbers.refs_of(n_lanes)]
        how = {"at_once": 1, "finished": {}, "on_done": ignore, "may_go_on": ignore}
        fold_lanes(engine, job, tasks[:8], **how)
        start = time.perf_counter()
        root = fold_lanes(engine, job, tasks, **how)
        assert engine.result(root).state == n_lanes * (n_lanes - 1) / 2
        report["fit_s"] = time.perf_counter() - start
        engine.close()


def open_one(client):
    from streamlearn.engine.cluster import Cluster
    from streamlearn.engine.executor import Threads

    return Threads(1) if client is None else Cluster(client, 1)


def slots(client):
    return None if client is None else ("scaling", 1)


def ignore(*args):
    return None


def add(a, b):
    return a + b


def add_first(state, chunk):
    return state + float(chunk.X[0, 0])


class Numbers:
    """Refs of one row that holds its number."""

    n_rows = None

    @staticmethod
    def refs_of(n):
        from streamlearn.data.row_ranges import Ref

        return [Ref(i, i + 1, 8) for i in range(n)]

    def reader(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        return None

    def read(self, ref):
        from streamlearn.data.source import Chunk

        return Chunk(np.array([[float(ref.start)]]), rows=range(ref.start, ref.stop))
