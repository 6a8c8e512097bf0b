"""A wide table of few rows keeps its rows: the same facts as if every column were counted."""

import numpy as np
import pytest
from passes.summary.columns_kit import hard_columns

import streamlearn as sl
from streamlearn.engine.summary import summarise
from streamlearn.passes.fold import run_fold
from streamlearn.passes.summary import reading
from streamlearn.passes.summary.reading import (
    MAX_STATE_BYTES,
    collect_summary,
    column_blocks,
    state_nbytes,
    summary_fold,
)

HARD = np.stack(list(hard_columns().values()), axis=1)[:700]
WIDE = np.tile(HARD, (1, 10))


def table(kind):
    X = WIDE
    rng = np.random.default_rng(3)
    if kind == "float32":
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
    if kind == "weighted":
        weight = rng.integers(0, 4, len(X)).astype(float)
        return sl.open_dataset(np.column_stack([X, weight]), weight=f"x{X.shape[1]}", chunk_rows=96)
    if kind == "columns":
        X = np.asfortranarray(X)
    return sl.open_dataset(X, chunk_rows=96)


def assert_same(a, b):
    for name in (*"count missing infinite zeros min max first_bad few bin_levels".split(),
                 *"values value_counts value_ends bins bin_counts bin_ends".split()):  # fmt: skip
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
    largest = np.fmax(np.abs(b.min), np.abs(b.max))
    for name, scale in (("mean", largest), ("variance", largest**2)):
        error = np.abs(getattr(a, name) - getattr(b, name))
        fine = error <= 1e-9 * np.abs(getattr(b, name)) + 1e-11 * scale
        assert (fine | np.isnan(getattr(b, name))).all() or np.isinf(scale).any(), name


@pytest.mark.parametrize("kind", ["float64", "float32", "columns", "weighted"])
def test_kept_rows_give_the_facts_that_counts_give(kind, monkeypatch):
    data = table(kind)
    assert reading._keeps_rows(data, False)
    with np.errstate(over="ignore", invalid="ignore"):
        kept = summarise(data)
        monkeypatch.setattr(reading, "_keeps_rows", lambda dataset, moments_only: False)
        counted = summarise(data)
    assert kept.n_reads == 1
    assert counted.n_reads > 1
    assert (kept.n_rows, kept.total_weight) == (counted.n_rows, counted.total_weight)
    assert_same(kept.columns, counted.columns)


def test_lanes_of_kept_rows_merge_in_their_order():
    data = table("float32")
    fold = summary_fold(data)
    states = [fold.step(fold.start(), chunk) for chunk in data.iter_chunks()]
    assert len(states) > 3
    with np.errstate(over="ignore", invalid="ignore"):
        whole = fold.finish(fold.merge(fold.merge(states[0], states[1]), fold.start()))
        assert whole.n_rows == 192
        assert_same(whole.columns, summarise(sl.open_dataset(WIDE[:192].astype("f4"))).columns)
    assert run_fold(fold, []).columns.count.tolist() == [0] * WIDE.shape[1]


def test_a_state_of_kept_rows_is_bounded_and_takes_few_reads():
    wide = sl.open_dataset(np.zeros((500, 9000), np.float32))
    blocks = column_blocks(wide)
    assert len(blocks) == 3  # of counts: 75
    assert state_nbytes(wide) <= MAX_STATE_BYTES
    counting = reading._counting(wide, MAX_STATE_BYTES, False)(len(blocks[0]))
    fold = reading._block_fold(wide, blocks[0], None, counting)
    part = wide.with_columns(blocks[0])
    state = fold.start()
    for chunk in part.iter_chunks():
        state = fold.step(state, chunk)
    assert 2 * sum(one["X"].nbytes for one in state["columns"]) <= state_nbytes(wide)
    tall = sl.open_dataset(np.broadcast_to(np.float32(0), (40_000, 200)))
    assert not reading._keeps_rows(tall, False)  # its rows take more than the counts


def test_blocks_of_kept_rows_are_joined():
    reads = []

    def read(fold, data, *, name):
        reads.append(name)
        return run_fold(fold, data.iter_chunks())

    data = table("float32")
    with np.errstate(over="ignore", invalid="ignore"):
        blocks = collect_summary(read, data, max_state_bytes=40 * state_nbytes(data) // 150)
        whole = summarise(data)
    assert len(reads) == 4
    assert_same(blocks.columns, whole.columns)
