"""The laws of a store, checked on a `Dataset` of it: `check_store`, and each law beside it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence

import numpy as np

from ..data.dataset import Dataset
from ..data.source import Chunk, Csr
from .rows import dense, read_whole

SLICES = (1, 37, 64, 200, 10**6)
"""Rows read at a time, in turn."""
PICKLED_NBYTES = 20_000
"""Most bytes of a pickled dataset whose rows are not in memory: it holds paths and metadata."""


def check_store(dataset: Dataset, expected: Chunk | None = None) -> None:
    """All laws of the store of a dataset with a target and a weight.

    Parameters
    ----------
    dataset : Dataset
    expected : Chunk, optional
        All rows as they were written: X (n, p), y (n,), weight (n,).  Default: as a first read
        gives them, so that only what contradicts itself is found.
    """
    expected = read_whole(dataset) if expected is None else expected
    for law in LAWS:
        law(dataset, expected)


def check_rows(
    dataset: Dataset, expected: Chunk, columns: Sequence[int] | slice = slice(None)
) -> np.ndarray:
    """Every chunk holds the rows that it says it holds; returns the row numbers, as read."""
    X, y, weight, seen = dense(expected.X), expected.y, expected.weight, []
    with dataset.reader() as reader:
        for ref in dataset.refs():
            chunk = reader.read(ref)
            rows = chunk.numbers
            assert len(rows) == chunk.n_rows
            assert np.all((ref.start <= rows) & (rows < ref.stop)), f"{ref} gave rows {rows}"
            np.testing.assert_array_equal(dense(chunk.X), X[rows][:, columns], f"X of {ref}")
            for name, got, all_of_it in (("y", chunk.y, y), ("weight", chunk.weight, weight)):
                if all_of_it is not None:
                    np.testing.assert_array_equal(got, all_of_it[rows], f"{name} of {ref}")
            assert chunk.weight is None or chunk.weight.dtype == np.float64
            seen.append(rows)
    return np.concatenate(seen)


def check_refs_tile_the_rows(dataset: Dataset, expected: Chunk) -> None:
    """Refs follow one another from row 0 to the last, and each row is read once."""
    refs, n_rows = dataset.refs(), expected.n_rows
    assert refs[0].start == 0
    assert refs[-1].stop == dataset.n_rows == dataset.n_physical_rows == n_rows
    assert all(a.stop == b.start for a, b in zip(refs[:-1], refs[1:], strict=True))
    assert all(0 < ref.n_rows <= max(dataset.slice_rows, n_rows) for ref in refs)
    np.testing.assert_array_equal(check_rows(dataset, expected), np.arange(n_rows))


def check_chunks_are_as_promised(dataset: Dataset, expected: Chunk) -> None:
    """Dtype, layout and size of chunks are those that the dataset says."""
    assert dataset.dtype in (np.float32, np.float64)
    with dataset.reader() as reader:
        X = reader.read(dataset.refs()[0]).X
    assert isinstance(X, Csr) == dataset.sparse
    if isinstance(X, Csr):
        assert X.data.dtype == dataset.dtype
        assert X.indptr[0] == 0
        assert X.indptr.dtype == np.int64
        inner = np.setdiff1d(np.arange(1, len(X.indices)), X.indptr)
        assert np.all(X.indices[inner] > X.indices[inner - 1]), "column numbers do not ascend"
    else:
        assert X.dtype == dataset.dtype
        assert X.flags.c_contiguous or X.flags.f_contiguous
        size = expected.n_rows * dataset.n_features * dataset.dtype.itemsize
        assert dataset.decoded_nbytes == size


def check_rows_do_not_depend_on_slices(dataset: Dataset, expected: Chunk) -> None:
    """The same rows come however many are read at a time."""
    for slice_rows in SLICES:
        sliced = dataset.with_slice_rows(slice_rows)
        assert all(ref.n_rows <= slice_rows for ref in sliced.refs())
        np.testing.assert_array_equal(check_rows(sliced, expected), np.arange(expected.n_rows))


def check_any_order(dataset: Dataset, expected: Chunk) -> None:
    """Refs may be read backwards and twice, with the same rows."""
    X, sliced = dense(expected.X), dataset.with_slice_rows(64)
    with sliced.reader() as reader:
        for ref in [*sliced.refs()[::-1], *sliced.refs()[:2]]:
            np.testing.assert_array_equal(dense(reader.read(ref).X), X[ref.start : ref.stop])


def check_two_readers(dataset: Dataset, expected: Chunk) -> None:
    """A reader does not change what another has given."""
    sliced = dataset.with_slice_rows(64)
    first, last = sliced.refs()[0], sliced.refs()[-1]
    with sliced.reader() as one, sliced.reader() as other:
        chunk = one.read(first)
        other.read(last)
        np.testing.assert_array_equal(dense(chunk.X), dense(expected.X)[first.start : first.stop])


def check_pickle(dataset: Dataset, expected: Chunk) -> None:
    """A pickled dataset reads the same rows elsewhere, and is small unless its rows are its own."""
    data = pickle.dumps(dataset)
    if not dataset.store.in_memory and not dataset.kind.startswith("dask"):
        assert len(data) < PICKLED_NBYTES, f"{len(data)} bytes are more than paths and metadata"
    copy = pickle.loads(data)
    assert copy.refs() == dataset.refs()
    assert copy.fingerprint() == dataset.fingerprint()
    np.testing.assert_array_equal(check_rows(copy, expected), np.arange(expected.n_rows))


def check_fingerprint(dataset: Dataset, expected: Chunk) -> None:
    """Fingerprints are JSON, stay, and tell choices of columns and rows apart."""
    here = json.dumps(dataset.fingerprint(), sort_keys=True)
    assert here == json.dumps(dataset.fingerprint(), sort_keys=True)
    some = dataset.feature_names[: max(1, dataset.n_features - 1)]
    for other in (dataset.select(some), dataset.split(0.5, seed=1)[0]):
        assert json.dumps(other.fingerprint(), sort_keys=True) != here


def check_different_content(dataset: Dataset, other: Dataset) -> None:
    """Two datasets of the same shape with different rows have different fingerprints."""
    assert dataset.n_rows == other.n_rows
    assert dataset.fingerprint() != other.fingerprint(), "the content does not show"


def check_columns(dataset: Dataset, expected: Chunk) -> None:
    """Only the columns that are asked for are given, in the order asked for."""
    p = dataset.n_features
    for columns in ([p - 1], [p - 1, 0]):
        chosen = dataset.select([dataset.feature_names[j] for j in columns[:p]])
        check_rows(chosen, expected, columns[:p])


def check_split(dataset: Dataset, expected: Chunk) -> None:
    """A split parts the rows, the same ones however they are sliced."""
    n_rows = expected.n_rows
    a, b = (np.sort(check_rows(part, expected)) for part in dataset.split(0.7, seed=5))
    assert abs(len(a) - 0.7 * n_rows) < 6 * (0.21 * n_rows) ** 0.5
    np.testing.assert_array_equal(np.sort(np.concatenate([a, b])), np.arange(n_rows))
    some = n_rows // 6
    assert len(check_rows(dataset.take(some, seed=5), expected)) == some
    again = check_rows(dataset.with_slice_rows(50).split(0.7, seed=5)[0], expected)
    np.testing.assert_array_equal(a, again)


def check_map(dataset: Dataset, expected: Chunk) -> None:
    """A mapped function sees each row once."""
    whole = read_whole(dataset.map(_double))
    np.testing.assert_array_equal(dense(whole.X), 2 * dense(expected.X))


def _double(X: np.ndarray | Csr) -> np.ndarray | Csr:
    return X._replace(data=2 * X.data) if isinstance(X, Csr) else 2 * X


def check_places(dataset: Dataset, expected: Chunk) -> None:
    """Places have names, and sizes are not negative."""
    assert len(dataset.place(dataset.refs()[-1])) > 3
    assert repr(dataset).startswith("Dataset of ")
    assert dataset.stored_nbytes >= 0
    assert dataset.overhead_nbytes >= 0


LAWS: tuple[Callable[[Dataset, Chunk], None], ...] = (
    check_refs_tile_the_rows,
    check_chunks_are_as_promised,
    check_rows_do_not_depend_on_slices,
    check_any_order,
    check_two_readers,
    check_pickle,
    check_fingerprint,
    check_columns,
    check_split,
    check_map,
    check_places,
)
"""Law of a dataset and of its rows as they were written."""
