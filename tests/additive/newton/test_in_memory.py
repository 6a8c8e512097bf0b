"""Rows kept in memory are read once, and nothing else changes."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import streamlearn as sl
from streamlearn.additive.costs import sizes
from streamlearn.engine import planning
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import RESERVE_BYTES, make_plan
from streamlearn.estimator.fitting import replan

N = 12_000


@pytest.fixture
def few_sampled(monkeypatch):
    """A sample that is not all rows, so that reads follow."""
    monkeypatch.setattr(sizes, "SAMPLE_ROWS", 1_000)
    monkeypatch.setattr(sizes, "SAMPLE_NBYTES", 1_000)


def write(folder, store):
    rng = np.random.default_rng(0)
    X = rng.random((N, 3), dtype=np.float32)
    X[:, 1] = np.floor(5 * X[:, 1])
    y = (np.sin(6 * X[:, 0]) + 0.3 * X[:, 1] + rng.normal(0, 0.5, N) > 0.8).astype(np.int8)
    weight = rng.integers(0, 4, N).astype(np.float64)
    path = folder / f"rows.{store}"
    if store == "parquet":
        columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "weight": weight, "y": y}
        pq.write_table(pa.table(columns), path, row_group_size=1_500)
        return path
    group = zarr.open_group(path, mode="w")
    for name, values in (("X", X), ("y", y), ("weight", weight)):
        chunks = (1_500, *values.shape[1:])
        group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype)[:] = values
    return path


def fit(data, **options):
    return sl.AdditiveClassifier(
        interactions=0, loss="log_loss", n_bases=6, tol=1e-6, **options
    ).fit(data)


@pytest.mark.usefixtures("few_sampled")
@pytest.mark.parametrize("store", ["parquet", "zarr"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
@pytest.mark.parametrize("share", [None, 0.6])
def test_same_bits_and_reads_but_the_store_is_read_less(
    tmp_path, monkeypatch, store, solver, share
):
    data = sl.open_dataset(write(tmp_path, store), target="y", weight="weight")
    data = data if share is None else data.split(share, seed=0)[0]
    kept = fit(data, solver=solver)
    monkeypatch.setattr(planning, "_keeping", lambda plan, needs, n_rows: plan)
    read = fit(data, solver=solver)
    assert kept.plan_.keeps_rows
    assert not read.plan_.keeps_rows
    assert kept.n_passes_ == read.n_passes_ > 3
    np.testing.assert_array_equal(kept.coef_, read.coef_)
    np.testing.assert_array_equal(kept.intercept_, read.intercept_)
    each = data.stored_nbytes
    assert kept.certificate_.rows_read == read.certificate_.rows_read
    assert read.certificate_.bytes_read == pytest.approx(read.n_passes_ * each, abs=read.n_passes_)
    assert kept.certificate_.bytes_read == pytest.approx(2 * each, abs=2)


def test_only_where_the_budget_has_room(tmp_path):
    n, p = 200_000, 20
    X = np.random.default_rng(0).random((p, n), dtype=np.float32)
    columns = {f"x{j}": column for j, column in enumerate(X)}
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({**columns, "y": (X[0] > 0.5).astype(np.int8)}), path)
    data, model = (
        sl.open_dataset(path, target="y"),
        sl.AdditiveClassifier(interactions=0, n_bases=6, C=1.0),
    )
    kept = sl.plan(model, data, memory_budget="1GiB")
    sizes = {term.label: term.total_bytes for term in dict(kept.terms)["newton"]}
    assert kept.keeps_rows
    assert sizes["cached rows"] == n * (4 * p + 8)  # and a target
    for more, of_them in (
        ({}, {"weight": "x0"}),
        ({}, {"filters": [("x1", "<", 2.0)]}),
        ({"class_weight": "balanced"}, {}),
    ):
        rows = sl.open_dataset(path, target="y", **of_them)
        plan = sl.plan(
            model.set_params(**{"class_weight": None} | more), rows, memory_budget="1GiB"
        )
        found = {term.label: term.total_bytes for term in dict(plan.terms)["newton"]}
        assert found["cached rows"] == n * (4 * rows.n_features + 16), of_them  # one number more
    model.set_params(class_weight=None)
    assert kept.peak_bytes == sum(sizes.values())
    assert "cached rows" in str(kept)
    not_kept = sl.plan(model, data, memory_budget=kept.peak_bytes - 1)
    assert not not_kept.keeps_rows
    assert not_kept.peak_bytes < kept.peak_bytes
    for name in ("slice_rows", "n_lanes", "lanes_in_flight", "slices_halved"):
        assert getattr(not_kept, name) == getattr(kept, name)
    table = sl.open_dataset(pq.read_table(path), target="y")
    assert not sl.plan(model, table, memory_budget="1GiB").keeps_rows  # they lie in memory


def test_given_up_where_what_the_summary_tells_leaves_no_room(tmp_path):
    """The number of classes, for one, is not known before."""

    class Planned:
        source = sl.open_dataset(write(tmp_path, "parquet"), target="y")
        plan = make_plan(source, [Needs("reads", 0, cached_bytes_per_row=100)], budget=32 << 20)
        counted = None

        def replan(self, plan):
            self.plan = plan

    run = Planned()
    assert run.plan.keeps_rows
    room = run.plan.budget - run.plan.peak_bytes - RESERVE_BYTES
    replan(run, lambda: [Needs("reads", 0, cached_bytes_per_row=100, driver_bytes=room + 1)])
    assert not run.plan.keeps_rows
    assert run.plan.peak_bytes <= run.plan.budget
    replan(run, lambda: [Needs("reads", 0, cached_bytes_per_row=100, driver_bytes=room)])
    assert run.plan.keeps_rows
