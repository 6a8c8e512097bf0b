"""pyGAM: LogisticGAM with as many splines a column as ours, in memory, on a tenth of a million."""

import time
from functools import reduce
from operator import add

from .frames import columns, scores


def prepare(**options):
    import pygam  # noqa: F401


def run(report, *, task, n_bases=20, rows=100_000, **options):
    import numpy as np
    import pygam

    table, y, varied = columns(task, "train", rows)
    terms = [
        pygam.s(j, n_splines=n_bases) if name in varied else pygam.l(j)
        for j, name in enumerate(table)
    ]
    X = np.column_stack(list(table.values()))
    model = pygam.LogisticGAM(reduce(add, terms))
    start = time.perf_counter()
    model.fit(X, y)
    report["fit_s"] = time.perf_counter() - start
    report["rows"] = len(y)

    def score():
        test, y_test, _ = columns(task, "test")
        return scores(y_test, model.predict_proba(np.column_stack([test[n] for n in table])))

    return score
