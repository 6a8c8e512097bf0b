"""After `warm()` a fit loads and compiles nothing: its memory is that of its data."""

import json
import subprocess
import sys

import pytest
from promises.jobs import write_rows

WARM = """
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
"""
PARQUET = """
data = sl.open_dataset(sys.argv[1], target="y", chunk_rows=8192)
for parameters in ({"solver": "dual-cd", "max_passes": 4}, {"tol": 1e-9}, {"C": 1.0}, {}):
    model = sl.AdditiveClassifier(**parameters).fit(data)
    model.score(data)
assert "x3 & x4" in model.term_names_  # the default had something to find
model.explain(data)
options = {"Cs": 2, "n_bases": [4, 6], "cv": 2}
sl.AdditiveClassifierCV(**options, calibration="sigmoid").fit(data)
sl.AdditiveRegressorCV(**options).fit(data)
"""
ARRAYS = """
import numpy as np
import scipy.sparse

rng = np.random.default_rng(1)
n = 1200
X = rng.random((n, 5))
X[:, 3] = rng.integers(0, 4, n)
X[:, 4] *= rng.random(n) < 0.3
two, three = (X[:, 0] + X[:, 1] * X[:, 2] > 0.8).astype(int), rng.integers(0, 3, n)
number, weight = X[:, 0] * X[:, 1], rng.random(n)
for dtype in ("float32", "float64"):
    dense = X.astype(dtype)
    tables = [dense, np.asfortranarray(dense), scipy.sparse.csr_array(dense)]
    for table in tables:
        for y in (two, three):
            for s in (None, weight):
                sl.AdditiveClassifier(n_bases=6, max_passes=4).fit(table, y, s).predict(table)
            for order in (0, 1, 2):
                for tol in (1e-2, 1e-4):
                    model = sl.AdditiveClassifier("hinge", solver="dual-cd", penalty_order=order)
                    model.set_params(n_bases=6, max_passes=4, tol=tol).fit(table, y).predict(table)
        for degree in (1, 2, 3):
            sl.AdditiveRegressor(n_bases=6, degree=degree).fit(table, number).predict(table)
        for smoother in ("pspline", "supsmu"):
            model = sl.ProjectionPursuitRegressor(3, smoother=smoother).fit(table, number)
            model.predict(table)
        for loss in ("hinge", "squared_hinge", "log_loss"):
            model = sl.SVMMixtureClassifier(2, expert_loss=loss, max_passes=3).fit(table, two)
            model.predict(table)
    for y in (two, three):
        sl.JensenShannonBoostClassifier(4).fit(dense, y).predict(dense)
        for candidates in ("columns", "products", "stumps", "pieces", "soft-pieces"):
            model = sl.ShareBoostClassifier(3, candidates=candidates, ridge=1e-3, n_anchors=5)
            model.fit(dense, y).predict(dense)
            if candidates in ("columns", "products"):
                model.fit(tables[2], y).predict(tables[2])
    wide = scipy.sparse.random_array((n, 300), density=0.02, rng=0, dtype=dtype, format="csr")
    for s in (None, weight):
        sl.AdditiveClassifier(n_bases=6, max_passes=4).fit(wide, two, s).predict(wide)
    few = rng.random((300, 200)).astype(dtype)  # so wide that its rows are kept and sorted
    for s in (None, weight[:300]):
        sl.AdditiveClassifier(n_bases=60, max_passes=4).fit(few, two[:300], s).predict(few)
    sl.SuperSparseClassifier(3).fit(dense, two).predict(dense)
    sl.SuperSparseRegressor(3).fit(dense, number).predict(dense)
"""
SIGNATURES = """
from inspect import getfile
from pathlib import Path
from numba.core import types
from streamlearn.numeric import jit

def classes(kind):
    if isinstance(kind, types.BaseNamedTuple):
        yield kind.instance_class
    for part in kind.types if isinstance(kind, types.BaseTuple) else ():
        yield from classes(part)

cached = [
    d
    for d in gc.get_objects()
    if isinstance(d, Dispatcher) and isinstance(d._cache, jit.CacheByKey)
]
taken = {
    (jit.room_of(d.py_func), kind)
    for d in cached
    for arguments in d.signatures
    for argument in arguments
    for kind in classes(argument)
}
astray = [
    f"{room}: {kind.__module__}.{kind.__qualname__}"
    for room, kind in taken
    if Path(getfile(kind)) not in jit.kernel_files(room)
]
print(json.dumps([len(taken), sorted(astray)]))
"""
REPORT = "print(json.dumps(sorted(kernels() - before)))"


def new_kernels(fits, *arguments):
    """What is loaded or compiled by `fits` after `warm()`, in a process of its own."""
    return after_warm(fits + REPORT, *arguments)


def after_warm(code, *arguments):
    """What the code prints last, run after `warm()` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", WARM + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_fit_after_warm_brings_no_new_kernel(tmp_path):
    path = write_rows(tmp_path / "rows.parquet", 120_000, 5, row_group=8_192, joint=True)
    assert new_kernels(PARQUET, path) == []


@pytest.mark.slow
def test_no_family_dtype_or_layout_brings_a_new_kernel():
    assert new_kernels(ARRAYS) == []


@pytest.mark.slow
def test_classes_that_kernels_take_lie_in_hashed_files():
    """A kernel reads a NamedTuple by the places that its fields had when it was compiled."""
    n_classes, astray = after_warm(SIGNATURES)
    assert n_classes > 20
    assert astray == []
