"""No verb of any family is interpreted column by column: calls are counted, nothing is timed.

A loop over columns that makes a record, an array or a few numbers of each costs a hundred
microseconds a column and more; a table of 10,000 columns then waits for Python alone.  Python
functions that are entered are counted for p and for 2p columns: what a column adds is bounded.
"""

import sys
from collections import Counter

import numpy as np
import pytest

import streamlearn as sl

P, ROWS = 240, 290
MOST = {"fit": 24, "predict": 6, "save": 1, "load": 1, "plan": 8, "summary": 10}
"""Calls a column: names and types are checked, and little else."""
FAMILIES = {
    "dual": lambda: sl.AdditiveClassifier(n_bases=5, max_passes=4, tol=1e3, solver="dual-cd"),
    "lbfgs": lambda: sl.AdditiveClassifier(n_bases=5, max_passes=4, tol=1e3, solver="lbfgs"),
    "regressor": lambda: sl.AdditiveRegressor(n_bases=3, max_passes=4, tol=1e3, solver="lbfgs"),
    "mixture": lambda: sl.SVMMixtureClassifier(2, max_passes=3),
    "shareboost": lambda: sl.ShareBoostClassifier(1),
    "stumps": lambda: sl.ShareBoostClassifier(1, candidates="stumps"),
    "pieces": lambda: sl.ShareBoostClassifier(1, candidates="soft-pieces"),
    "pursuit": lambda: sl.ProjectionPursuitRegressor(1),
    "boosting": lambda: sl.JensenShannonBoostClassifier(1),
    "supersparse": lambda: sl.SuperSparseClassifier(2, n_passes=3),
}


def table(p):
    """Columns of many values, of few, and constant ones, the same however many there are."""
    rng = np.random.default_rng(0)
    X = np.tile(rng.standard_normal((ROWS, 8)).astype(np.float32), (1, p // 8))
    X[:, ::4] = np.round(X[:, ::4])
    X[:, 5::16] = 1.0
    return X


def entered(function, *args):
    """How often each function of Python was entered meanwhile, by file and name."""
    calls = Counter()

    def note(frame, event, arg):
        if event == "call":
            calls[f"{frame.f_code.co_filename}:{frame.f_code.co_name}"] += 1

    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return calls


def verbs(make, X, y, path):
    """Calls of each verb on this table."""
    model = make()
    return {
        "fit": entered(model.fit, X, y),
        "predict": entered(model.predict, X),
        "save": entered(sl.save, model, path),
        "load": entered(sl.load, path),
        "plan": entered(sl.plan, make(), X),
        "summary": entered(lambda: sl.open_dataset(X).summary()),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_column_adds_few_calls(family, tmp_path, monkeypatch):
    # a small table is decided without a dataset: only the narrow one would be
    monkeypatch.setattr("streamlearn.estimator.rows.inputs.SMALL", 0)
    make, narrow, wide = FAMILIES[family], table(P), table(2 * P)
    y = (narrow[:, 1] + narrow[:, 2] > 0).astype(np.int64)
    with sl.config_context(scheduler="synchronous"):
        make().fit(narrow, y)  # what is done once a process is not counted
        few, many = (verbs(make, X, y, tmp_path / "model.slm") for X in (narrow, wide))
    for verb, most in MOST.items():
        per_column = {
            name: (count - few[verb][name]) / P
            for name, count in many[verb].items()
            if count - few[verb][name] >= 0.9 * P  # fewer: a solver's steps, not columns
        }
        assert sum(per_column.values()) <= most, (verb, per_column)
