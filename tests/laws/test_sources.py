"""Laws of every store, checked on one small example of each."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from laws.examples import FEATURES, NO_EXAMPLE, SOURCES, TABLE, N
from laws.laws_kit import CountingSource

import streamlearn
from streamlearn.data.mapped import MappedSource, SourceOver
from streamlearn.data.source import Chunk, Source
from streamlearn.data.store import Store
from streamlearn.passes.fold import read_all, run_fold
from streamlearn.passes.summary.reading import summary_fold
from streamlearn.testing.rows import dense
from streamlearn.testing.stores import LAWS


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


WRITTEN = Chunk(TABLE.X, TABLE.y, TABLE.weight, range(N))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_laws(dataset, law):
    assert dataset.feature_names == FEATURES
    law(dataset, WRITTEN)


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
