"""Wide sparse rows are counted by what they store: the same facts as tables and bins give."""

import numpy as np
import pytest
import scipy.sparse
from passes.summary.columns_kit import hard_columns
from passes.summary.counts.test_few_rows import assert_same

import streamlearn as sl
from streamlearn.data.memory.opening import open_arrays
from streamlearn.data.open import dataset_of
from streamlearn.data.source import Chunk, Csr
from streamlearn.engine.summary import summarise
from streamlearn.passes.fold import run_fold
from streamlearn.passes.sample import SampledRead
from streamlearn.passes.summary import reading
from streamlearn.passes.summary.counts import kernels_runs, stored
from streamlearn.passes.summary.counts.kernels_runs import bin_run, merge_runs, ordered, unordered
from streamlearn.passes.summary.reading import collect_summary, count_reads, state_nbytes

HARD = np.stack(list(hard_columns(2000).values()), axis=1)
SPECIAL = np.where(np.arange(2000)[:, None] % 97 == 5, [np.nan, np.inf, -np.inf], 1.5)
WIDE = np.tile(np.hstack([HARD, SPECIAL]), (1, 8))
KINDS = ("float32", "float64", "narrow float64", "weighted", "zero weights", "bytes")


def rows(kind):
    rng = np.random.default_rng(3)
    X = np.where(rng.random(WIDE.shape) < 0.3, WIDE, 0.0)
    X[:, 3], X[:, 4] = WIDE[:, 0], 0.0  # always there, never there
    if kind == "float32":
        X = X.astype(np.float32)
    if kind == "narrow float64":
        X = X.astype(np.float32).astype(float)
    if kind == "bytes":
        X = rng.integers(0, 3, X.shape).astype(np.float32)
    csr = scipy.sparse.csr_array(X)
    if "weight" not in kind:
        return sl.open_dataset(csr, chunk_rows=96)
    weight = rng.integers(0 if kind == "zero weights" else 1, 4, len(X)) / 4  # sums are exact
    store = open_arrays(csr, None, weight)
    return dataset_of(store, weight="sample_weight", chunk_rows=96)


def counted(data, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(reading, "is_stored", lambda dataset, moments_only: False)
        return summarise(data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("room", [None, 17_000])
def test_stored_values_give_the_facts_that_counts_give(kind, room, monkeypatch):
    data = rows(kind)
    assert reading.is_stored(data, False)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = counted(data, monkeypatch)
        if room:  # small runs, and several reads
            monkeypatch.setattr(stored, "MIN_CAPACITY", 1)
            monkeypatch.setattr(reading, "capacity", lambda dataset, limit: room)
        found = summarise(data)
    assert expected.n_reads > 1
    assert found.n_reads == 1 if room is None else kind == "bytes" or found.n_reads > 1
    assert (found.n_rows, found.total_weight) == (expected.n_rows, expected.total_weight)
    assert found.columns.names == expected.columns.names
    assert_same(found.columns, expected.columns)


def test_lanes_merge_wherever_their_columns_end(monkeypatch):
    data = rows("float32")
    fold = reading._block_fold(
        data, tuple(data.feature_names), None, reading._counting(data, 0, False)(WIDE.shape[1])
    )
    small = reading._counting(data, 0, False)(WIDE.shape[1])._replace(
        add=lambda state, chunk: stored.add_stored(3_000, state, chunk),
        merge=lambda a, b: stored.merge_stored(3_000, a, b),
    )
    with np.errstate(over="ignore", invalid="ignore"):
        whole = run_fold(fold, data.iter_chunks()).columns
        states = []
        for chunk in data.iter_chunks():
            states.append(small.add(small.start(), chunk))
        left = small.merge(small.merge(states[0], states[1]), small.start())
        for state in states[2:]:
            left = small.merge(left, state)
        stop, moments, found = stored.finish_stored(left)
    assert 0 < stop < WIDE.shape[1]
    ends = whole.value_ends[: stop + 1]
    np.testing.assert_array_equal(found.value_ends, ends)
    np.testing.assert_array_equal(found.values, whole.values[: ends[-1]])
    np.testing.assert_array_equal(found.value_counts, whole.value_counts[: ends[-1]])
    np.testing.assert_array_equal(found.bin_ends, whole.bin_ends[: stop + 1])
    np.testing.assert_array_equal(found.bins, whole.bins[: found.bin_ends[-1]])
    np.testing.assert_array_equal(moments["zeros"], whole.zeros[:stop])


def test_a_sample_taken_in_several_reads_holds_each_column_once(monkeypatch):
    data = rows("float32")
    monkeypatch.setattr(reading, "capacity", lambda dataset, limit: 17_000)
    read = SampledRead(lambda fold, rows, *, name: run_fold(fold, rows.iter_chunks()), 50, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        found = collect_summary(read, data)
    assert found.n_reads > 1
    sample = read.sample()
    dense = np.vstack([chunk.X.dense() for chunk in data.iter_chunks()])
    np.testing.assert_array_equal(sample.X.dense(), dense[sample.rows])


def test_a_state_is_bounded_and_the_reads_are_as_many_as_foreseen():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array(
        (6_000, 900), density=0.2, rng=rng, dtype=np.float32, format="csr"
    )
    data = sl.open_dataset(X, chunk_rows=500)
    limit = 1 << 20
    assert state_nbytes(data, limit) <= limit
    chunk_values = 500 * 900 * 0.25
    room = stored.capacity(data, limit)
    state, most = stored.start_stored(900, False), 0
    for chunk in data.iter_chunks():
        state = stored.add_stored(room, state, chunk)
        entries = len(state["runs"].columns) + state["n_waiting"]
        most = max(most, entries)
        assert len(state["runs"].columns) <= room
    assert room / 2 < most <= room * (1 + 1 / stored.WAITING) + chunk_values
    reads = []

    def read(fold, rows, *, name):
        reads.append((name, len(rows.feature_names)))
        return run_fold(fold, rows.iter_chunks())

    assert collect_summary(read, data, limit).n_reads == len(reads)
    least, most = count_reads(data, limit)
    assert least < len(reads) <= most
    assert reads[0] == ("summary", 900)
    assert reads[1][0] == "summary-2"
    assert count_reads(rows("float32")) == (1, 1)  # the state holds all values there can be


def runs(seed):
    """Values of 40 columns, some in bins, from 600 draws; and which are."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, 40, 600)).astype(np.int32)
    binned = rng.random(40) < 0.3
    values = np.where(binned[columns], rng.integers(1, 60, 600) / 64, rng.normal(size=600).round(2))
    values = np.where(values == 0, 1.0, values)
    order = np.lexsort((values, columns))
    columns, values = columns[order], values[order]
    first = np.concatenate([[True], (np.diff(columns) != 0) | (np.diff(values) != 0)])
    counts = rng.integers(1, 9, first.sum())
    return stored.Runs(columns[first], values[first], counts), binned


@pytest.mark.parametrize("most", [256, 27])
def test_merged_runs_compiled_and_as_python(most, monkeypatch):
    (a, a_binned), (b, b_binned) = runs(0), runs(1)
    monkeypatch.setattr(kernels_runs, "MAX_VALUES", most)
    monkeypatch.setattr(kernels_runs, "bin_run", getattr(bin_run, "py_func", bin_run))
    levels = np.full(40, 44)
    size = len(a.columns) + len(b.columns)
    found = []
    for merge in (getattr(merge_runs, "py_func", merge_runs), merge_runs)[
        : 2 if most == 256 else 1
    ]:  # compiled with 256
        out = stored.Runs(np.empty(size, np.int32), np.empty(size), np.empty(size, np.int64))
        binned = a_binned | b_binned
        n = merge(a, b, levels, out, binned)
        found.append((n, binned, *(part[:n].copy() for part in out)))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
    _, binned, columns, values, counts = found[0]
    assert counts.sum() == a.counts.sum() + b.counts.sum()
    assert (np.diff(columns) >= 0).all()
    assert (np.diff(values)[np.diff(columns) == 0] > 0).all()
    assert np.bincount(columns[~binned[columns]]).max() <= most
    assert (binned.sum() > (a_binned | b_binned).sum()) == (most == 27)


def test_order_of_keys_is_the_order_of_columns_and_values():
    values = np.array([-np.inf, -3e38, -1.0, -1e-45, 0.0, 1e-45, 0.5, 1.0, 3e38], np.float32)
    columns = np.repeat(np.array([0, 1, 2**31 - 1], np.int32), len(values))
    keys = ordered(columns, np.tile(values, 3))
    assert (np.diff(keys) > 0).all()
    same, back = unordered(keys)
    np.testing.assert_array_equal(same, columns)
    np.testing.assert_array_equal(back, np.tile(values, 3))


def test_a_column_leaves_for_bins_at_its_257th_value_zero_included():
    values = np.arange(1, 257, dtype=np.float32)
    for zeros, few in ((0, True), (1, False)):
        n = 256 + zeros
        indptr = np.minimum(np.arange(n + 1), 256)  # the last row stores nothing
        chunk = Chunk(Csr(values, np.zeros(256, np.int32), indptr, 1))
        state = stored.add_stored(1 << 20, stored.start_stored(1, False), chunk)
        _, _, found = stored.finish_stored(state)
        assert found.few.tolist() == [few]
        assert found.value_counts.sum() == (256 if few else 0)
        assert found.bin_counts.sum() == (0 if few else 256)
