"""Plans of every family by the number of threads: what decides bits does not follow it."""

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.base import is_classifier

import streamlearn as sl

ROWS, COLUMNS = 60_000, 200
BUDGETS = range(20, 300, 14)
"""In MiB: one lane at a time with cut slices, up to all lanes at once."""
MODELS = {
    name: getattr(sl, name)
    for name in sl.__all__
    if name.endswith(("Classifier", "Regressor", "ClassifierCV", "RegressorCV"))
}
VARIANTS = {
    **{name: (kind, {}) for name, kind in MODELS.items()},
    "AdditiveClassifier, newton": (sl.AdditiveClassifier, {"solver": "newton", "n_bases": 10}),
    "AdditiveClassifier, lbfgs": (sl.AdditiveClassifier, {"solver": "lbfgs", "n_bases": 10}),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A parquet file, and a zarr group whose chunks hold all columns."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    X, y = rng.random((ROWS, COLUMNS), dtype=np.float32), rng.integers(0, 2, ROWS).astype(np.int8)
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    pq.write_table(
        pa.table({**columns, "y": y}), folder / "t.parquet", row_group_size=10_000, compression=None
    )
    group = zarr.create_group(str(folder / "t.zarr"))
    for name, values in (("X", X), ("y", y)):
        chunks = (8192, *values.shape[1:])
        group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype)[:] = values
    return {kind: sl.open_dataset(folder / f"t.{kind}", target="y") for kind in ("parquet", "zarr")}


def plans(model, data, threads):
    """Budget -> plan, None where it is refused."""
    found = {}
    with dask.config.set(num_workers=threads):
        for budget in BUDGETS:
            try:
                found[budget] = sl.plan(model, data, memory_budget=f"{budget}MiB")
            except sl.MemoryBudgetError:
                found[budget] = None
    return found


def cost(plan):
    """Reads of the whole table for each lane at once, with ten after the summary."""
    return (plan.passes[0] + 10) / plan.lanes_in_flight


@pytest.mark.turns(2, 0)
@pytest.mark.parametrize("store", ["parquet", "zarr"])
@pytest.mark.parametrize("name", VARIANTS)
def test_slices_do_not_follow_threads(tables, name, store):
    kind, parameters = VARIANTS[name]
    model, data = kind(**parameters), tables[store]
    assert is_classifier(model) == name.split(",")[0].endswith(("Classifier", "ClassifierCV"))
    one = plans(model, data, 1)
    for threads in (3, 8):
        more = plans(model, data, threads)
        for budget, plan in one.items():
            other = more[budget]
            assert (plan is None) == (other is None), (budget, threads)
            if plan is None:
                continue
            assert other.slice_rows == plan.slice_rows, (budget, threads)
            assert other.n_lanes == plan.n_lanes
            if store == "zarr":  # a read of few columns is one of all: lanes have to repay it
                assert cost(other) <= cost(plan), (budget, threads)
