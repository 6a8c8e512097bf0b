"""After `warm()` a fit loads and compiles nothing: its memory is that of its data."""

import json
import subprocess
import sys

import pytest
from promises.jobs import write_rows

PROGRAM = """
import gc, json, sys, warnings
warnings.simplefilter("ignore")
from numba.core.dispatcher import Dispatcher
import streamlearn as sl

def kernels():
    return {
        f"{d.py_func.__module__}.{d.py_func.__qualname__}{args}"
        for d in gc.get_objects()
        if isinstance(d, Dispatcher) and d.py_func.__module__.startswith("streamlearn")
        for args in d.signatures
    }

thresholds = gc.get_threshold()
sl.warm()
assert gc.get_threshold() == thresholds
before = kernels()
data = sl.open_dataset(sys.argv[1], target="y", chunk_rows=8192)
for parameters in ({}, {"solver": "dual-cd", "max_passes": 4}, {"tol": 1e-9}):
    model = sl.AdditiveClassifier(**parameters).fit(data)
    model.score(data)
model.explain(data)
options = {"Cs": 2, "n_bases": [4, 6], "cv": 2}
sl.AdditiveClassifierCV(**options, calibration="sigmoid").fit(data)
sl.AdditiveRegressorCV(**options).fit(data)
print(json.dumps(sorted(kernels() - before)))
"""


@pytest.mark.slow
def test_a_fit_after_warm_brings_no_new_kernel(tmp_path):
    path = write_rows(tmp_path / "rows.parquet", 120_000, 5, row_group=8_192)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []
