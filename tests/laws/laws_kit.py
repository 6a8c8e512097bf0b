"""What the laws need: rows of any chunking, and plain comparison of trees."""

from copy import copy
from dataclasses import fields, is_dataclass

import numpy as np
from scipy import sparse

from streamlearn.data.mapped import SourceOver
from streamlearn.data.row_ranges import Ref
from streamlearn.data.source import Chunk, Csr


def take(X, index):
    """Rows of a chunk's X as new arrays in the same layout."""
    if isinstance(X, Csr):
        rows = sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)[index]
        return Csr(rows.data, rows.indices, rows.indptr.astype(np.int64), X.n_columns)
    order = "F" if X.flags.f_contiguous and not X.flags.c_contiguous else "C"
    return np.array(X[index], order=order)


def dense(X):
    if isinstance(X, Csr):
        return sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape).toarray()
    return np.array(X)


def as_csr(X):
    rows = sparse.csr_array(X)
    return Csr(rows.data, rows.indices, rows.indptr.astype(np.int64), rows.shape[1])


def rows_of(chunk, index):
    """Some rows of a chunk, as a chunk of its own."""
    part = np.asarray(chunk.rows)[index]
    if len(part) and np.array_equal(part, np.arange(part[0], part[0] + len(part))):
        part = range(int(part[0]), int(part[0]) + len(part))
    return Chunk(
        take(chunk.X, index),
        None if chunk.y is None else chunk.y[index],
        None if chunk.weight is None else chunk.weight[index],
        part,
    )


def cut(chunk, cuts):
    """The chunk in pieces that end at `cuts` (some may be empty) and at its end."""
    edges = [0, *sorted(cuts), chunk.n_rows]
    return [rows_of(chunk, np.arange(a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def read_whole(dataset):
    """All rows as one chunk."""
    with dataset.reader() as reader:
        parts = [rows_of(c, np.arange(c.n_rows)) for c in map(reader.read, dataset.refs())]
    X = parts[0].X
    if isinstance(X, Csr):
        X = as_csr(np.concatenate([dense(part.X) for part in parts]))
    else:
        X = np.concatenate([part.X for part in parts])
    y, weight = (
        None
        if getattr(parts[0], name) is None
        else np.concatenate([getattr(c, name) for c in parts])
        for name in ("y", "weight")
    )
    return Chunk(X, y, weight, np.concatenate([np.asarray(c.rows) for c in parts]))


def same(a, b, rtol=1e-11, path="answer"):
    """Trees of equal shape whose integers agree exactly and whose floats to rounding."""
    assert type(a) is type(b), f"{path}: {type(a)} and {type(b)}"
    if is_dataclass(a):
        for field in fields(a):
            same(getattr(a, field.name), getattr(b, field.name), rtol, f"{path}.{field.name}")
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            same(a[key], b[key], rtol, f"{path}[{key!r}]")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, rtol, f"{path}[{k}]")
    elif isinstance(a, np.ndarray | float | np.floating):
        x, y = np.asarray(a), np.asarray(b)
        assert x.shape == y.shape, f"{path}: {x.shape} and {y.shape}"
        if x.dtype.kind == "f":
            scale = np.abs(x[np.isfinite(x)]).max(initial=0.0)
            np.testing.assert_allclose(x, y, rtol, rtol * max(scale, 1e-3), err_msg=path)
        else:
            np.testing.assert_array_equal(x, y, path)
    else:
        assert a == b, path


class CountingSource(SourceOver):
    """A source that counts how often each ref is read."""

    def __init__(self, source):
        super().__init__(source)
        self.reads = {}

    def reader(self):
        return _CountingReader(self)


class _CountingReader:
    def __init__(self, counting):
        self.counting, self.reader = counting, counting.source.reader()

    def read(self, ref: Ref):
        self.counting.reads[ref] = self.counting.reads.get(ref, 0) + 1
        return self.reader.read(ref)

    def __enter__(self):
        self.reader.__enter__()
        return self

    def __exit__(self, *exc):
        self.reader.__exit__(*exc)


def with_lengths(store, lengths):
    """A dask store whose partitions have been counted: a dataframe does not know its lengths."""
    store = copy(store)
    store.known, store.n_rows = tuple(lengths), sum(lengths)
    return store
