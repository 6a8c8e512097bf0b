"""A refused plan names a budget; the verb, tried again with it, is not refused."""

import inspect
import re
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from promises.verbs import QUICK

import streamlearn as sl
from streamlearn.errors import MemoryBudgetError

N = 20_000
TOO_LITTLE = "10MiB"
"""Less than what every plan counts for libraries and a slice."""
REFUSED = r"raise memory_budget( to \d+ MiB)?$"


def numbers(path):
    rng = np.random.default_rng(0)
    X = rng.random((N, 40), dtype=np.float32)
    columns = {f"x{j}": X[:, j] for j in range(40)}
    columns["y"] = (X[:, 0] > X[:, 1]).astype(np.int8)
    pq.write_table(pa.table(columns), path)


def words(path):
    rng = np.random.default_rng(1)
    X = rng.random((N, 4), dtype=np.float32)
    columns = {f"x{j}": X[:, j] for j in range(4)}
    columns |= {f"w{k}": np.char.add("word ", rng.integers(0, 2_000, N).astype(str)) for k in "ab"}
    columns["y"] = (X[:, 0] > X[:, 1]).astype(np.int8)
    pq.write_table(pa.table(columns), path)


def csr(path, p=100):
    rng = np.random.default_rng(2)
    stored = 10
    step = p // stored
    indices = np.sort(rng.integers(0, step, (N, stored)) + np.arange(stored) * step, axis=1)
    values = rng.random((N, stored), dtype=np.float32) + 0.5
    group = zarr.open_group(path, mode="w", zarr_format=2)
    X = group.create_group("X")
    X.attrs.update({"encoding-type": "csr_matrix", "shape": [N, p]})
    parts = {"data": values.ravel(), "indices": indices.ravel()}
    parts["indptr"] = np.arange(0, stored * N + 1, stored)
    for key, array in parts.items():
        X.create_array(key, data=array)
    group.create_array("y", data=(values[:, 0] > values[:, 1]).astype(np.int8))


TABLES = {"numbers": numbers, "words": words, "csr": csr}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    for name, write in TABLES.items():
        write(str(folder / name))
    return folder


def opened(tables, name):
    return sl.open_dataset(str(tables / name), target="y")


def with_budget(budget, verb):
    with sl.config_context(memory_budget=budget, scheduler="synchronous"):
        return verb()


def named_in(refused):
    named = re.search(REFUSED, str(refused))
    assert named, refused
    assert named[1], refused
    return named[1].removeprefix(" to ")


@pytest.mark.parametrize("solver", ["dual-cd", "lbfgs"])
def test_sparse_rows_are_planned_by_what_they_store(solver, tmp_path):
    """Ten values a row of 20,000 columns: a row's coordinates take 128 bytes and not 80,000."""
    few, many = tmp_path / "few", tmp_path / "many"
    csr(str(few), 100)
    csr(str(many), 20_000)
    model = sl.AdditiveClassifier(solver=solver, n_bases=3)
    with sl.config_context(scratch=str(tmp_path), memory_budget="1GiB"):
        plans = [sl.plan(model, sl.open_dataset(str(path), target="y")) for path in (few, many)]
    assert plans[1].disk_bytes <= 1.01 * plans[0].disk_bytes
    for phase, terms in plans[1].terms:
        if phase == "summary":  # runs of what is stored are taken in, whatever the rows of a step
            continue
        step = sum(term.each_bytes for term in terms if term.label == "step")
        assert step < 16 << 20, phase


UNFIT = {("words", "SplineEmbedding"), ("words", "FourierEmbedding")}
"""(table, family) that no budget makes fit: the family takes no such columns."""


@pytest.mark.slow
@pytest.mark.turns(4, 0)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("family", QUICK)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_and_its_predictions_run_with_the_budget_named(family, name, tables, tmp_path):
    if (name, family) in UNFIT:
        return
    data = opened(tables, name)

    def model():
        made = getattr(sl, family)(**QUICK[family])
        has_seed = "random_state" in inspect.signature(type(made)).parameters
        return made.set_params(random_state=0) if has_seed else made

    with pytest.raises(MemoryBudgetError, match=REFUSED) as refused:
        with_budget(TOO_LITTLE, lambda: model().fit(data))
    fitted = with_budget(named_in(refused.value), lambda: model().fit(data))
    for method in ("predict", "explain", "score"):
        if hasattr(fitted, method):
            try_named(getattr(fitted, method), data, tmp_path / "explained", fitted)
    if hasattr(fitted, "predict_to"):
        try_named(partial(fitted.predict_to, path=tmp_path / "answers"), data)


def try_named(verb, data, path=None, fitted=None):
    """What the refusal names, a budget or the way to disk, is enough."""
    with pytest.raises(MemoryBudgetError, match=REFUSED) as refused:
        with_budget(TOO_LITTLE, lambda: verb(data))
    if "the answer alone" not in str(refused.value):
        with_budget(named_in(refused.value), lambda: verb(data))
        return
    assert verb.__name__ == "explain"
    assert "write it to disk with predict_to(X, path)" in str(refused.value)
    try_named(partial(fitted.predict_to, path=path, what="explanation"), data)
