"""Plans against fits: what a phase says of a fold's state is what the fold starts with, or more."""

import numpy as np
import pytest

import streamlearn as sl
from streamlearn.engine.run import Run
from streamlearn.passes.fold import nbytes_of

MODELS = {
    "newton": sl.AdditiveClassifier(n_bases=6),
    "smoothness": sl.AdditiveClassifier(n_bases=6, smoothness="reml"),
    "covariance": sl.AdditiveRegressor(n_bases=6, covariance=True),
    "gram": sl.AdditiveRegressor(n_bases=6),
    "pairs": sl.AdditiveRegressor(n_bases=6, interactions=[(0, 1), (2, 3)]),
    "pairs with bands": sl.AdditiveRegressor(
        n_bases=6, interactions=[(0, 1), (2, 3)], covariance=True
    ),
    "screening": sl.AdditiveClassifier(n_bases=6, interactions=10),
    "lbfgs": sl.AdditiveClassifier(n_bases=6, solver="lbfgs"),
    "dual": sl.AdditiveClassifier(n_bases=6, solver="dual-cd", calibration="sigmoid"),
    "choice": sl.AdditiveRegressorCV(Cs=[0.1, 1.0], n_bases=6, cv=3),
    "choice by Newton": sl.AdditiveClassifierCV(Cs=[0.1, 1.0], n_bases=6, cv=3),
    "choice by dual-cd": sl.AdditiveClassifierCV("hinge", Cs=[0.1, 1.0], n_bases=6, cv=3),
    "mixture": sl.SVMMixtureClassifier(2),
    "prototypes": sl.SuperSparseRegressor(2),
    "prototypes by choice": sl.SuperSparseRegressorCV((1, 2), cv=2),
}
"""Name -> a small model of each kind whose phases measure their states."""
CALLED = {
    "newton": ("newton", "refit"),
    "lbfgs": ("newton",),
    "gram": ("gram", "gram-refit"),
    "prototypes": ("prototypes",),
    "smoothness": ("smooth",),
    "covariance": ("covariance",),
    "certificate": ("certificate",),
    "pairs": ("pairs",),
    "screening": ("screening",),
    "calibration": ("calibration",),
    "lloyd": ("lloyd", "centres"),
    "em": ("em", "iteration"),
}
"""Phase of a plan -> what its reads are called, but for a number at the end."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    import pandas as pd

    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.standard_normal((2000, 4)).astype(np.float32), columns=list("abcd"))
    data["y"] = (data.a + data.b**2 > 0.5).astype(int)
    path = tmp_path_factory.mktemp("plans") / "table.parquet"
    data.to_parquet(path, row_group_size=400)
    return sl.open_dataset(path, target="y")


@pytest.mark.parametrize("name", MODELS)
def test_the_planned_state_is_the_one_a_fold_starts_with(name, table, monkeypatch):
    measured = []
    run_fold = Run.fold

    def measuring(run, fold, source=None, **options):
        phases = dict(run.plan.terms)
        for phase, terms in phases.items():
            if options["name"].rstrip("0123456789").rstrip("-") in CALLED.get(phase, ()):
                planned = next(term.each_bytes for term in terms if term.label == "state")
                measured.append((options["name"], planned, nbytes_of(fold.start())))
        return run_fold(run, fold, source, **options)

    monkeypatch.setattr(Run, "fold", measuring)
    MODELS[name].fit(table)
    assert measured
    for read, planned, started in measured:
        assert started <= planned, f"{read} starts with {started} bytes, planned were {planned}"
