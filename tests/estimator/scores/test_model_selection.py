"""A dataset shown to scikit-learn's model_selection: refused by name, with what to use instead."""

import inspect

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.model_selection as tools
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  it adds two names

import streamlearn as sl

rng = np.random.default_rng(0)
X = rng.random((120, 3))
Y = (X[:, 0] > 0.5).astype(int)
GROUPS = np.arange(120) % 7
MODEL = sl.AdditiveClassifier(n_bases=4)
GIVEN = {
    "param_grid": {"C": [0.1, 1.0]},
    "param_distributions": {"C": [0.1, 1.0]},
    "param_name": "C",
    "param_range": [0.1, 1.0],
    "p": 2,
    "n_groups": 2,
    "test_fold": GROUPS,
}
"""Parameters without a default, by name."""
TAKE_NO_X = {
    *("BaseCrossValidator", "ParameterGrid", "ParameterSampler", "check_cv"),
    *("PredefinedSplit",),  # its splits are told
}
"""Public names that read no X."""
COUNTED_ALONE = ("LeaveOneOut", "LeavePOut")
"""Splitters whose number of splits is one of the rows."""


def given(function):
    names = inspect.signature(function).parameters
    return {name: value for name, value in GIVEN.items() if name in names}


def ways(name):
    """Calls of one public name that take X, by what is called."""
    tool = getattr(tools, name)
    if inspect.isfunction(tool):
        if "arrays" in inspect.signature(tool).parameters:
            return {"": tool}
        return {"": lambda X: tool(MODEL, X, Y, **given(tool))}
    if hasattr(tool, "from_estimator"):
        show = tool.from_estimator
        return {"from_estimator": lambda X: show(MODEL, X, Y, **given(show))}
    if hasattr(tool, "split"):
        splitter = tool(**given(tool))
        groups = GROUPS if "Group" in name else None  # the others warn of them
        found = {"split": lambda X: next(splitter.split(X, Y, groups))}
        if name in COUNTED_ALONE:
            found["get_n_splits"] = splitter.get_n_splits
        return found
    return {"fit": lambda X: tool(MODEL, **given(tool)).fit(X, Y)}


WAYS = {
    f"{name}.{way}".rstrip("."): ways(name)[way]
    for name in tools.__all__
    if name not in TAKE_NO_X
    for way in ways(name)
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The same rows on disk."""
    path = tmp_path_factory.mktemp("data") / "rows.parquet"
    pq.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "y": Y}), path)
    return sl.open_dataset(path, target="y")


@pytest.mark.parametrize("way", WAYS)
def test_a_dataset_is_refused_with_the_remedy(data, way):
    rows = r"a Dataset of 120 rows x 3 features \(parquet.*\) is read in chunks"
    with pytest.raises(TypeError, match=rf"{rows}.*sl\.cross_validate.*ends in CV.*as arrays"):
        WAYS[way](data)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_in_processes_is_refused_before_they_start(data, n_jobs):
    with pytest.raises(TypeError, match=r"sl\.cross_validate"):
        tools.GridSearchCV(MODEL, GIVEN["param_grid"], n_jobs=n_jobs).fit(data)


def test_what_the_remedy_names_takes_the_dataset(data):
    found = sl.cross_validate(MODEL, data, cv=2, param_grid=GIVEN["param_grid"])
    assert found.scores.shape == (2, 2)
    chosen = sl.AdditiveClassifierCV(Cs=[0.1, 1.0], n_bases=[4], cv=2).fit(data)
    assert chosen.score(data) > 0.9


def test_a_search_of_arrays_predicts_a_dataset(data):
    search = tools.GridSearchCV(MODEL, GIVEN["param_grid"], cv=2).fit(X, Y)
    features = data.select(["x0", "x1", "x2"])
    np.testing.assert_array_equal(search.predict(features), search.predict(X))
    assert search.score(data) == search.score(X, Y)
