"""Rows for laws: cut, taken, joined, and compared as plain trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass

import numpy as np
from scipy import sparse

from ..data.source import Chunk, Csr, Source


def take(X: np.ndarray | Csr, index: np.ndarray) -> np.ndarray | Csr:
    """Rows of a chunk's X as new arrays in the same layout."""
    if isinstance(X, Csr):
        rows = sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)[index]
        return Csr(rows.data, rows.indices, rows.indptr.astype(np.int64), X.n_columns)
    order = "F" if X.flags.f_contiguous and not X.flags.c_contiguous else "C"
    return np.array(X[index], order=order)  # type: ignore[call-overload]


def dense(X: np.ndarray | Csr) -> np.ndarray:
    """A chunk's X as a new dense array."""
    if isinstance(X, Csr):
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape).toarray()
    return np.array(X)


def as_csr(X: np.ndarray) -> Csr:
    """A dense X as compressed rows."""
    rows = sparse.csr_array(X)
    return Csr(rows.data, rows.indices, rows.indptr.astype(np.int64), rows.shape[1])


def rows_of(chunk: Chunk, index: np.ndarray) -> Chunk:
    """Some rows of a chunk, as a chunk of its own."""
    numbers = chunk.numbers[index]
    rows: np.ndarray | range = numbers
    if len(rows) and np.array_equal(numbers, np.arange(rows[0], rows[0] + len(rows))):
        rows = range(int(rows[0]), int(rows[0]) + len(rows))
    return Chunk(
        take(chunk.X, index),
        None if chunk.y is None else chunk.y[index],
        None if chunk.weight is None else chunk.weight[index],
        rows,
    )


def cut(chunk: Chunk, cuts: Sequence[int]) -> list[Chunk]:
    """The chunk in pieces that end at `cuts` (some may be empty) and at its end."""
    edges = [0, *sorted(cuts), chunk.n_rows]
    return [rows_of(chunk, np.arange(a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def read_whole(dataset: Source) -> Chunk:
    """All rows of a dataset as one chunk."""
    with dataset.reader() as reader:
        parts = [rows_of(c, np.arange(c.n_rows)) for c in map(reader.read, dataset.refs())]
    X: np.ndarray | Csr
    if isinstance(parts[0].X, Csr):
        X = as_csr(np.concatenate([dense(part.X) for part in parts]))
    else:
        X = np.concatenate([dense(part.X) for part in parts])
    y, weight = _joined([c.y for c in parts]), _joined([c.weight for c in parts])
    return Chunk(X, y, weight, np.concatenate([c.numbers for c in parts]))


def _joined(arrays: list[np.ndarray | None]) -> np.ndarray | None:
    """The arrays one after the other; None if there are none."""
    given = [array for array in arrays if array is not None]
    return np.concatenate(given) if given else None


def same(a: object, b: object, rtol: float = 1e-11, path: str = "answer") -> None:
    """Trees of equal shape whose integers agree exactly and whose floats to rounding.

    A field that its dataclass does not compare says how rows were read, and may differ.
    """
    assert type(a) is type(b), f"{path}: {type(a)} and {type(b)}"
    if is_dataclass(a):
        for field in fields(a):
            if not field.compare:
                continue
            same(getattr(a, field.name), getattr(b, field.name), rtol, f"{path}.{field.name}")
    elif isinstance(a, dict) and isinstance(b, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            same(a[key], b[key], rtol, f"{path}[{key!r}]")
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
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
