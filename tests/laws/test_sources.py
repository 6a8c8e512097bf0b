"""Laws of every store, checked on one small example of each."""

import importlib
import inspect
import json
import pickle
import pkgutil

import numpy as np
import pytest
from laws.examples import FEATURES, NO_EXAMPLE, SOURCES, TABLE, N, P
from laws.laws_kit import CountingSource, dense, read_whole

import streamlearn
from streamlearn.data.mapped import MappedSource, SourceOver
from streamlearn.data.source import Chunk, Csr, Source
from streamlearn.data.store import Store
from streamlearn.passes.fold import read_all, run_fold
from streamlearn.passes.summary.summary import summary_fold


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Each example, opened once: a dict that fills itself."""

    class Opened(dict):
        def __missing__(self, name):
            folder = tmp_path_factory.mktemp(name.replace(" ", "-"))
            self[name] = SOURCES[name](folder)
            return self[name]

    return Opened()


@pytest.fixture(params=SOURCES)
def dataset(request, datasets):
    return datasets[request.param]


def subclasses(kind):
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def test_every_store_has_an_example(datasets):
    for room in ("data", "engine"):
        package = importlib.import_module(f"streamlearn.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    public = {
        kind
        for kind in subclasses(Store)
        if kind.__module__.startswith(streamlearn.__name__) and not inspect.isabstract(kind)
    }
    seen = {type(datasets[name].store) for name in SOURCES}
    missing = {kind.__name__ for kind in public - seen} - NO_EXAMPLE.keys()
    assert not missing, f"add {missing} to tests/laws/examples.py"


def check_rows(dataset, columns=slice(None)):
    """Every chunk holds the rows it says it holds, and together they hold all of them once."""
    seen = []
    with dataset.reader() as reader:
        for ref in dataset.refs():
            chunk = reader.read(ref)
            rows = np.asarray(chunk.rows)
            assert len(rows) == chunk.n_rows == len(chunk.y) == len(chunk.weight)
            assert np.all((ref.start <= rows) & (rows < ref.stop))
            np.testing.assert_array_equal(dense(chunk.X), TABLE.X[rows][:, columns])
            np.testing.assert_array_equal(chunk.y, TABLE.y[rows])
            np.testing.assert_array_equal(chunk.weight, TABLE.weight[rows])
            assert chunk.weight.dtype == np.float64
            seen.append(rows)
    return np.concatenate(seen)


def test_refs_tile_the_rows(dataset):
    refs = dataset.refs()
    assert refs[0].start == 0
    assert refs[-1].stop == dataset.n_rows == dataset.n_physical_rows == N
    assert all(a.stop == b.start for a, b in zip(refs[:-1], refs[1:], strict=True))
    assert all(0 < ref.n_rows <= max(dataset.slice_rows, N) for ref in refs)
    np.testing.assert_array_equal(check_rows(dataset), np.arange(N))


def test_chunks_are_as_promised(dataset):
    assert dataset.feature_names == FEATURES
    assert dataset.dtype in (np.float32, np.float64)
    with dataset.reader() as reader:
        X = reader.read(dataset.refs()[0]).X
    assert isinstance(X, Csr) == dataset.sparse
    assert (X.data if dataset.sparse else X).dtype == dataset.dtype
    if dataset.sparse:
        assert X.indptr[0] == 0
        assert X.indptr.dtype == np.int64
        inner = np.setdiff1d(np.arange(1, len(X.indices)), X.indptr)
        assert np.all(X.indices[inner] > X.indices[inner - 1])
    else:
        assert X.flags.c_contiguous or X.flags.f_contiguous
        assert dataset.decoded_nbytes == N * P * dataset.dtype.itemsize


@pytest.mark.parametrize("slice_rows", [1, 37, 64, 200, 10**6])
def test_rows_do_not_depend_on_slices(dataset, slice_rows):
    sliced = dataset.with_slice_rows(slice_rows)
    assert all(ref.n_rows <= slice_rows for ref in sliced.refs())
    np.testing.assert_array_equal(check_rows(sliced), np.arange(N))


def test_rows_may_be_asked_for_in_any_order(dataset):
    sliced = dataset.with_slice_rows(64)
    with sliced.reader() as reader:
        for ref in [*sliced.refs()[::-1], *sliced.refs()[:2]]:
            chunk = reader.read(ref)
            np.testing.assert_array_equal(dense(chunk.X), TABLE.X[ref.start : ref.stop])


def test_two_readers_do_not_disturb_each_other(dataset):
    sliced = dataset.with_slice_rows(64)
    first, last = sliced.refs()[0], sliced.refs()[-1]
    with sliced.reader() as one, sliced.reader() as other:
        chunk = one.read(first)
        other.read(last)
        np.testing.assert_array_equal(dense(chunk.X), TABLE.X[first.start : first.stop])


def test_pickles_read_the_same_rows(dataset):
    data = pickle.dumps(dataset)
    if not dataset.store.in_memory and not dataset.kind.startswith("dask"):
        assert len(data) < 20_000
    copy = pickle.loads(data)
    assert copy.refs() == dataset.refs()
    assert copy.fingerprint() == dataset.fingerprint()
    np.testing.assert_array_equal(check_rows(copy), np.arange(N))


def test_fingerprints_are_json_and_tell_choices_apart(dataset):
    here = json.dumps(dataset.fingerprint(), sort_keys=True)
    assert here == json.dumps(dataset.fingerprint(), sort_keys=True)
    for other in (dataset.select(FEATURES[:2]), dataset.split(0.5, seed=1)[0]):
        assert json.dumps(other.fingerprint(), sort_keys=True) != here


@pytest.mark.parametrize("columns", [[3], [4, 0, 2]], ids=str)
def test_only_the_columns_asked_for_are_given(dataset, columns):
    chosen = dataset.select([FEATURES[j] for j in columns])
    assert chosen.n_features == len(columns)
    check_rows(chosen, columns)


def test_split_and_take_part_the_rows(dataset):
    a, b = (np.sort(check_rows(part)) for part in dataset.split(0.7, seed=5))
    assert abs(len(a) - 0.7 * N) < 6 * (0.21 * N) ** 0.5
    np.testing.assert_array_equal(np.sort(np.concatenate([a, b])), np.arange(N))
    assert len(check_rows(dataset.take(100, seed=5))) == 100
    again = check_rows(dataset.with_slice_rows(50).split(0.7, seed=5)[0])
    np.testing.assert_array_equal(a, again)


def test_map_sees_each_row_once(dataset):
    whole = read_whole(dataset.map(_double))
    np.testing.assert_array_equal(dense(whole.X), 2 * TABLE.X)


def _double(X):
    if isinstance(X, Csr):
        return X._replace(data=2 * X.data)
    return 2 * X


def test_places_have_names(dataset):
    ref = dataset.refs()[-1]
    assert len(dataset.place(ref)) > 3
    assert repr(dataset).startswith("Dataset of ")
    assert dataset.stored_nbytes >= 0
    assert dataset.overhead_nbytes >= 0


def test_a_summary_reads_each_ref_once(dataset):
    counting = CountingSource(dataset)
    summary = run_fold(summary_fold(counting), read_all(counting))
    assert counting.reads == dict.fromkeys(dataset.refs(), 1)
    assert summary.n_rows == N
    assert summary.total_weight == TABLE.weight.sum()
    for j, column in enumerate(summary.columns):
        x = TABLE.X[TABLE.weight > 0, j]
        assert (column.min, column.max) == (x.min(), x.max())


def test_a_mapped_source_answers_as_the_one_beneath(dataset):
    """Every public fact of a source, by name: none is lost on the way."""
    mapped = MappedSource(dataset, _same)
    members = [name for name in dir(Source) if not name.startswith("_")]
    assert {"stored_nbytes", "sparse", "target", "place"} < set(members)
    for name in members:
        assert name in ("n_features", "reader") or name in vars(SourceOver), f"pass on {name}"
        if isinstance(vars(Source).get(name), property):
            assert getattr(mapped, name) == getattr(dataset, name), name
    assert mapped.n_rows == dataset.n_rows
    assert mapped.refs() == dataset.refs()
    assert mapped.place(dataset.refs()[0]) == dataset.place(dataset.refs()[0])
    narrow = mapped.with_columns(FEATURES[:2]).with_slice_rows(50)
    assert (narrow.n_features, narrow.slice_rows) == (2, 50)


def _same(chunk):
    return chunk


def test_chunks_are_cut_and_joined(dataset):
    with dataset.with_slice_rows(64).reader() as reader:
        chunk = reader.read(dataset.with_slice_rows(64).refs()[1]).copy()
    parts = list(chunk.blocks(7))
    assert [part.n_rows for part in parts[:-1]] == [7] * ((chunk.n_rows - 1) // 7)
    parts.insert(2, chunk.part(0, 0))  # an empty one
    for again in (Chunk.join(parts), chunk.take(np.arange(chunk.n_rows))):
        np.testing.assert_array_equal(dense(again.X), dense(chunk.X))
        np.testing.assert_array_equal(again.y, chunk.y)
        np.testing.assert_array_equal(again.weight, chunk.weight)
        np.testing.assert_array_equal(again.rows, chunk.rows)
    odd = chunk.where(np.arange(chunk.n_rows) % 2 == 1)
    np.testing.assert_array_equal(dense(odd.X), dense(chunk.X)[1::2])
    assert odd.rows.tolist() == list(chunk.rows)[1::2]
    joined = Chunk.join([odd, odd])
    np.testing.assert_array_equal(joined.rows, [*odd.rows, *odd.rows])
    assert chunk.where(np.ones(chunk.n_rows, bool)) is chunk
