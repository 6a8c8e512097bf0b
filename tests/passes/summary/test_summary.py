import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes.summary.columns_kit import hard_columns

import streamlearn as sl
from streamlearn.data.source import Chunk, Csr
from streamlearn.passes.fold import run_fold
from streamlearn.passes.summary.columns import (
    COLUMN_NBYTES,
    TABLE_NBYTES,
    add_columns,
    empty_columns,
    merge_columns,
    settle_bytes,
)
from streamlearn.passes.summary.reading import (
    collect_summary,
    column_blocks,
    state_nbytes,
    summary_fold,
)

COLUMNS = hard_columns()
NAMES = tuple(COLUMNS)
X = np.stack(list(COLUMNS.values()), axis=1)
SHARES = np.concatenate([[0, 1e-3, 1 - 1e-3, 1], np.linspace(0.01, 0.99, 50)])


def dataset(X, **kw):
    return sl.open_dataset(X, **kw)


def named(summary, name):
    return summary.columns[NAMES.index(name)]


def same_facts(a, b, rtol=1e-11):
    assert len(a.columns) == len(b.columns)
    for c, d in zip(a.columns, b.columns, strict=True):
        for name in ("count", "missing", "infinite", "zeros", "min", "max"):
            np.testing.assert_equal(getattr(c, name), getattr(d, name), f"{c.name} {name}")
        np.testing.assert_array_equal(c.bins, d.bins)
        np.testing.assert_allclose(c.bin_counts, d.bin_counts, rtol=rtol)
        assert (c.values is None) == (d.values is None), c.name
        if c.values is not None:
            np.testing.assert_array_equal(c.values, d.values)
            np.testing.assert_allclose(c.value_counts, d.value_counts, rtol=rtol)
        scale = max(abs(c.min), abs(c.max))
        np.testing.assert_allclose(c.mean, d.mean, rtol=rtol, atol=rtol * scale)
        np.testing.assert_allclose(c.variance, d.variance, rtol=1e-9, atol=(rtol * scale) ** 2)


@pytest.fixture(scope="module")
def summary():
    return dataset(X, chunk_rows=1024).summary()


@pytest.mark.parametrize("j", range(len(NAMES)), ids=NAMES)
def test_moments_against_longdouble(summary, j):
    column, exact = summary.columns[j], X[:, j].astype(np.longdouble)
    mean, variance = exact.mean(), exact.var()
    spread = np.abs(exact).max()
    assert abs(column.mean - mean) <= 1e-12 * spread
    assert abs(column.variance - variance) <= 1e-12 * max(variance, 1e-12 * spread**2)
    assert (column.min, column.max) == (X[:, j].min(), X[:, j].max())
    assert (column.count, column.zeros) == (len(X), np.count_nonzero(X[:, j] == 0))


@pytest.mark.parametrize("j", range(len(NAMES)), ids=NAMES)
def test_distinct_values(summary, j):
    values, counts = np.unique(X[:, j], return_counts=True)
    column = summary.columns[j]
    if len(values) > 256:
        assert column.values is None
        assert column.bin_counts.sum() + column.zeros == len(X)
    else:
        np.testing.assert_array_equal(column.values, values)
        np.testing.assert_array_equal(column.value_counts, counts)
        assert column.value_counts.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("j", range(len(NAMES)), ids=NAMES)
def test_quantiles_keep_their_stated_error(j, dtype):
    x = hard_columns(dtype=dtype)[NAMES[j]]
    column = dataset(x[:, None]).summary().columns[0]
    estimate = column.quantile(SHARES)
    exact = np.quantile(x.astype(np.float64), SHARES, method="inverted_cdf")
    np.testing.assert_allclose(estimate, exact, rtol=1 / 32, atol=2e-38)
    for side in (x[x < 0], x[x > 0]):
        of_side = np.isin(exact, side)
        if of_side.any():
            ends = np.sort(np.abs(side[[side.argmin(), side.argmax()]].astype(np.float64)))
            bound = (ends[1] - ends[0]) / 500 * max(np.log2(ends[1] / max(ends[0], 1e-38)), 1)
            assert np.abs(estimate - exact)[of_side].max() <= bound + 2e-38
    below = np.searchsorted(np.sort(x), estimate, "left") / len(x)
    upto = np.searchsorted(np.sort(x), estimate + 1e-7 * np.abs(estimate), "right") / len(x)
    allowed = column.rank_error + 1 / len(x)
    assert np.all(below - allowed <= SHARES)
    assert np.all(SHARES <= upto + allowed)
    assert (column.quantile(0), column.quantile(1)) == (x.min(), x.max())


def test_columns_are_found_by_name(summary):
    assert summary["x3"].name == summary.columns[3].name == "x3"
    assert summary["x3"].mean == summary.columns.mean[3]


@pytest.mark.parametrize("most", [1, 400, 10**6])
def test_blocks_of_columns_have_the_pieces_of_the_columns(summary, most):
    facts = summary.columns
    found = [facts.pieces(a, z) for a, z in facts.blocks(most)]
    assert sum(len(part.ends) - 1 for part in found) == len(facts)
    for name, of in (("lo", "lo"), ("hi", "hi"), ("mass", "mass")):
        expected = np.concatenate([getattr(column.cdf(), of) for column in facts])
        np.testing.assert_array_equal(
            np.concatenate([getattr(part, name) for part in found]), expected
        )


def test_few_valued_quantiles_are_exact():
    x = np.array([3, 1, 1, 2, 2, 2, 9], np.float32)
    column = dataset(x[:, None]).summary().columns[0]
    assert column.rank_error == 0
    expected = np.quantile(x, SHARES, method="inverted_cdf")
    np.testing.assert_array_equal(column.quantile(SHARES), expected)
    with pytest.raises(ValueError, match="between 0 and 1"):
        column.quantile(1.5)


def test_zeros_have_a_piece_of_their_own(summary):
    lo, hi, mass = named(summary, "mostly-zero").cdf()
    at = np.flatnonzero((lo == 0) & (hi == 0))
    assert mass[at] == np.count_nonzero(COLUMNS["mostly-zero"] == 0)
    assert np.all(lo <= hi)
    assert np.all(hi[:-1] <= lo[1:])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_agree(summary, order, dtype):
    other = np.array(X, dtype, order=order)
    other.flags.writeable = False
    same_facts(summary, dataset(other, chunk_rows=700).summary())


def test_strided_arrays():
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    state = add_columns(empty_columns(len(NAMES), False), Chunk(wide, rows=range(len(X))))
    np.testing.assert_array_equal(state["high"], X.max(axis=0))


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_is_dense(weighted):
    from scipy import sparse

    rng = np.random.default_rng(1)
    few = rng.random((4000, 5)) < 0.1
    dense = np.where(few, np.round(100 * rng.standard_normal((4000, 5)), 2), 0).astype(np.float32)
    dense[:, 3] = np.round(dense[:, 3] / 50)
    dense[:, 4] += 1
    w = np.round(3 * rng.random(4000)) if weighted else None
    kw = {"chunk_rows": 512}
    sparse_summary = _summary_of(sparse.csr_array(dense), w, kw)
    same_facts(_summary_of(dense, w, kw), sparse_summary)
    assert sparse_summary.columns[4].zeros == np.sum((dense[:, 4] == 0) * (1 if w is None else w))


def _summary_of(X, w, kw):
    return _dataset_of(X, w, kw).summary()


def _dataset_of(X, w, kw):
    from streamlearn.data.dataset import Dataset
    from streamlearn.data.memory.opening import open_arrays

    store = open_arrays(X, sample_weight=w)
    names = tuple(c.name for c in store.columns if c.name != "sample_weight")
    data = Dataset(store, names, weight=None if w is None else "sample_weight", **kw)
    assert bool(data.sparse) == (not isinstance(X, np.ndarray))
    return data


def test_weights_are_copies():
    rng = np.random.default_rng(2)
    w = rng.integers(0, 4, len(X)).astype(float)
    copies = np.repeat(X, w.astype(int), axis=0)
    weighted = _summary_of(X, w, {"chunk_rows": 512})
    repeated = _summary_of(copies, None, {"chunk_rows": 512})
    assert weighted.total_weight == len(copies)
    assert weighted.n_rows == len(X)
    for c, d in zip(weighted.columns, repeated.columns, strict=True):
        assert isinstance(c.count, float)
        assert isinstance(d.count, int)
    same_facts(weighted, repeated)


def test_missing_and_infinite_are_counted_apart_and_named():
    bad = X.copy()
    bad[[7, 3000], 1] = np.nan
    bad[2500, 1] = -np.inf
    bad[100, 12] = np.inf
    column, other = dataset(bad, chunk_rows=512).summary().columns[1:13:11]
    clean = np.delete(X[:, 1], [7, 2500, 3000])
    assert (column.missing, column.infinite, column.first_bad) == (2, 1, 7)
    assert (column.count, column.min, column.max) == (len(clean), clean.min(), clean.max())
    assert abs(column.mean - clean.astype(np.longdouble).mean()) < 1e-12
    assert (other.missing, other.infinite, other.first_bad) == (0, 1, 100)
    rows = dataset(bad)
    summary = rows.summary()
    with pytest.raises(
        sl.SourceError, match=r"'x1' holds 2 NaN .* row 7 \(X, rows 7 to 8\); also in 'x12'"
    ):
        summary.require_finite(rows)
    dataset(X).summary().require_finite(dataset(X))
    assert "Missing values in 1 column: x1 2 (first in row 7)." in str(summary)


def test_a_column_of_nothing_but_nan():
    column = dataset(np.full((9, 1), np.nan)).summary().columns[0]
    assert (column.count, column.missing, column.first_bad) == (0, 9, 0)
    assert np.isnan([column.min, column.mean, column.variance, column.quantile(0.5)]).all()
    assert "x0" in str(dataset(np.full((9, 1), np.nan)).summary())


def test_float64_past_the_range_of_float32():
    x = np.array([1e300, -1e200, 1e-300, 0.0, *np.linspace(1, 2, 300)])
    column = dataset(x[:, None]).summary().columns[0]
    assert (column.min, column.max, column.zeros) == (-1e200, 1e300, 1)
    assert column.bin_counts.sum() == len(x) - 1
    assert 1 <= column.quantile(0.5) <= 2
    assert (column.quantile(0), column.quantile(1)) == (-1e200, 1e300)


@given(st.lists(st.integers(0, 300), max_size=6), st.randoms(use_true_random=False))
def test_merging_is_chunking(cuts, random):
    """Integers do not depend on cuts nor on the shape of the merge tree."""
    part = X[:300]
    whole = add_columns(empty_columns(len(NAMES), False), Chunk(part, rows=range(300)))
    edges = [0, *sorted(cuts), 300]
    states = [
        add_columns(empty_columns(len(NAMES), False), Chunk(part[a:b], rows=range(a, b)))
        for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]
    while len(states) > 1:
        k = random.randrange(len(states) - 1)
        states[k : k + 2] = [merge_columns(states[k], states[k + 1])]
    for name in ("zeros", "low", "below", "above", "high", "distinct", "weight", "level"):
        np.testing.assert_array_equal(states[0][name], whole[name])
    binned = np.flatnonzero(whole["bin_of"] >= 0)
    for j in binned:
        a, b = (s["bins"][s["bin_of"][j]][:-8] for s in (states[0], whole))
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(states[0]["mean"], whole["mean"], rtol=1e-12, atol=1e-12 * 1e30)


def test_blocks_of_columns_give_the_same_summary(summary):
    reads = []

    def read(fold, data, *, name):
        reads.append(name)
        return run_fold(fold, (chunk for chunk in data.iter_chunks()))

    y = X[:, 0] > 0.5
    data = sl.open_dataset(np.column_stack([X, y]), target=f"x{len(NAMES)}", chunk_rows=1024)
    limit = 3 * state_nbytes(data.select(["x0"]))
    blocks = collect_summary(read, data, limit)
    assert len(reads) == len(column_blocks(data, limit)) == 7
    assert blocks.n_reads == 7
    assert blocks.labels.counts.tolist() == [np.sum(~y), np.sum(y)]
    assert blocks.ref_labels.shape == (len(data.refs()), 2)
    same_facts(blocks, data.summary(), rtol=0)


def test_bytes_need_no_bins():
    wide = dataset(np.zeros((3, 500), np.uint8))
    assert len(column_blocks(wide)) == 1
    tall = np.broadcast_to(np.uint8(0), (40_000, 500))  # of few rows, the rows would be kept
    assert len(column_blocks(dataset(tall))) == 1
    assert len(column_blocks(dataset(tall.astype(np.float32)))) == 5
    assert len(column_blocks(dataset(tall).map(np.sqrt))) == 5


@pytest.mark.parametrize("limit", [1, TABLE_NBYTES, COLUMN_NBYTES, 3 * COLUMN_NBYTES, 1 << 30])
def test_blocks_take_columns_while_their_states_fit(limit):
    pandas = pytest.importorskip("pandas")
    small = np.random.default_rng(0).random(40) < 0.5
    types = np.where(small, "bool", "float32")
    frame = pandas.DataFrame({f"c{j}": np.zeros(40_000, kind) for j, kind in enumerate(types)})
    sizes = dict(zip(frame, np.where(small, TABLE_NBYTES, COLUMN_NBYTES), strict=True))
    blocks, room = [], 0
    for name, size in sizes.items():
        if size > room:
            blocks.append([])
            room = limit
        blocks[-1].append(name)
        room -= size
    found = column_blocks(dataset(frame), limit)
    assert [list(names) for names in found] == blocks
    largest = max(sum(sizes[name] for name in names) for names in blocks)
    assert state_nbytes(dataset(frame), limit) == largest


def test_a_summary_reads_as_a_table(summary):
    text = str(summary)
    assert text.startswith("5,000 rows, 19 columns\n")
    assert "No missing or infinite values." in text
    wide = str(dataset(np.zeros((2, 300))).summary())
    assert "... 260 more columns ..." in wide
    assert len(wide.splitlines()) < 50


def test_no_rows_finish():
    empty = run_fold(summary_fold(dataset(X)), [])
    assert empty.n_rows == 0
    assert empty.columns[0].count == 0
    assert "0 rows" in str(empty)


def test_csr_with_many_columns_and_no_entries():
    chunk = Chunk(Csr(np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(4, np.int64), 6))
    chunk.rows = range(3)
    state = settle_bytes(add_columns(empty_columns(6, False), chunk))
    assert state["zeros"].tolist() == [3.0] * 6
    assert state["distinct"].tolist() == [1] * 6


@pytest.mark.parametrize("kind", ["dense", "weighted", "sparse"])
def test_a_summary_of_moments_is_the_whole_one_without_distributions(kind):
    from scipy import sparse

    rng = np.random.default_rng(0)
    values = rng.standard_normal((700, 130)).astype(np.float32)  # more than one slab of columns
    values[rng.random(values.shape) < 0.3] = 0.0
    values[:, 4] = 3.0
    values[[11, 40, 650], [2, 2, 129]] = np.nan, np.inf, np.nan
    weight = rng.integers(0, 3, 700).astype(float) if kind == "weighted" else None
    X = sparse.csr_array(values) if kind == "sparse" else values
    data = _dataset_of(X, weight, {"chunk_rows": 64})
    whole = data.summary()
    fold = summary_fold(data, moments_only=True)
    halves = [fold.start(), fold.start()]
    for k, chunk in enumerate(data.iter_chunks()):
        halves[k > 4] = fold.step(halves[k > 4], chunk)
    moments = fold.finish(fold.merge(*halves))
    for a, b in zip(moments.columns, whole.columns, strict=True):
        for name in ("count", "missing", "infinite", "zeros", "min", "max", "first_bad"):
            assert getattr(a, name) == getattr(b, name), (a.name, name)
        np.testing.assert_allclose([a.mean, a.variance], [b.mean, b.variance], rtol=1e-11)
        assert a.values is None
        assert not len(a.bins)


def test_a_summary_of_moments_needs_one_read_of_many_columns():
    wide = dataset(np.zeros((20_000, 500), np.float32))
    assert len(column_blocks(wide)) == 5
    assert len(column_blocks(wide, moments_only=True)) == 1


def test_bytes_of_sparse_rows_are_counted_as_other_values_are():
    from scipy import sparse

    rng = np.random.default_rng(0)
    values = rng.integers(0, 256, (500, 5)) * (rng.random((500, 5)) < 0.3)
    values[:, 3], values[:, 4] = 0, 7
    halves = values.astype(np.float32)
    halves[300:, 1] += 0.5  # chunks that hold others are counted in tables
    for table in (values.astype(np.uint8), values.astype(np.float32), halves):
        found = _dataset_of(sparse.csr_array(table), None, {"chunk_rows": 100}).summary()
        dense = _dataset_of(np.asarray(table, np.float32), None, {"chunk_rows": 100}).summary()
        for a, b in zip(found.columns, dense.columns, strict=True):
            for name in ("count", "missing", "zeros", "min", "max"):
                assert getattr(a, name) == getattr(b, name), name
            assert a.mean == pytest.approx(b.mean, rel=1e-12)
            assert a.variance == pytest.approx(b.variance, rel=1e-12, abs=1e-12)
            np.testing.assert_array_equal(a.values, b.values)
            np.testing.assert_array_equal(a.value_counts, b.value_counts)


def test_bytes_in_python_are_the_compiled_ones():
    from streamlearn.passes.summary.counts import kernels_bytes

    values = np.array([3, 255, 0, 3, 1.5], np.float32)
    indices = np.array([0, 1, 0, 0, 1], np.int32)
    for n, all_bytes, dtype in ((4, True, np.float32), (5, False, np.float32), (5, True, np.uint8)):
        values = values.astype(dtype)
        both = []
        for function in (kernels_bytes.count_bytes, kernels_bytes.count_bytes):
            function = getattr(function, "py_func", function) if both else function
            counts = np.zeros((2, 256), np.int64)
            assert function(values[:n], indices[:n], counts) == all_bytes
            both.append(counts)
        np.testing.assert_array_equal(*both)
        assert both[0].sum() == (n if all_bytes else 0)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_tables_are_sorted_by_value(dtype):
    from streamlearn.passes.summary.counts.kernels_table import SLOTS, slot_of, sort_tables

    random = np.random.default_rng(0)
    sizes = [0, 1, 256, 37, 133]
    keys, counts = np.full((5, SLOTS), np.nan), np.zeros((5, SLOTS), dtype)
    wanted = []
    for j, n in enumerate(sizes):
        values = np.unique(random.standard_normal(n).round(3))[: n if j else 0]
        for value in random.permutation(values):
            slot = int(slot_of(keys[j], value))
            keys[j, slot], counts[j, slot] = value, 1 + random.integers(9)
            wanted.append((j, value, counts[j, slot]))
    ends = np.cumsum([0, *(~np.isnan(keys)).sum(axis=1)])
    ends[4:] = ends[3]  # a table that is not asked for, the last but one
    ends[5] = ends[3] + (~np.isnan(keys[4])).sum()
    wanted = np.array(sorted(entry for entry in wanted if entry[0] != 3))
    for function in (sort_tables, getattr(sort_tables, "py_func", sort_tables)):
        values, out = np.empty(ends[-1]), np.empty(ends[-1], dtype)
        function(keys, counts, ends, values, out)
        np.testing.assert_array_equal(values, wanted[:, 1])
        np.testing.assert_array_equal(out, wanted[:, 2])
