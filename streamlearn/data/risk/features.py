"""Features of rows at risk, copied from the rows below into buffers of one reader.

A row at risk has the features of its row below and those that say which step it is.  Dense rows
are written column by column; sparse ones keep what is stored, with the steps' own values behind it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from ...errors import SourceError
from ..columns import Buffer, is_all, select_csr
from ..source import Csr

Own = Callable[[str], np.ndarray]
"""Values of one of the steps' own columns, for some rows at risk."""


class Features(ABC):
    """Room for the features of the rows at risk of one read."""

    @abstractmethod
    def kept(self, X: np.ndarray | Csr) -> np.ndarray | Csr:
        """The features of rows below that rows at risk keep."""

    @abstractmethod
    def sizes(self, X: np.ndarray | Csr) -> np.ndarray | int:
        """Size of a copy of each row of X, in numbers of temporaries."""

    @abstractmethod
    def begin(self, copies: Sequence[tuple[np.ndarray, np.ndarray | Csr]]) -> None:
        """Make room for so many copies of each row of some X."""

    @abstractmethod
    def put(self, at: int, of: np.ndarray, X: np.ndarray | Csr, own: Own) -> None:
        """Write copies of the rows `of` of X, with the steps' `own` values, from row `at` on."""

    @abstractmethod
    def finish(self) -> np.ndarray | Csr:
        """The features of all rows, in the order of their names."""


class DenseFeatures(Features):
    """An array, each column together."""

    def __init__(self, names: Sequence[str], below: Sequence[str], dtype: np.dtype) -> None:
        self._names = tuple(names)
        self._places = {name: j for j, name in enumerate(below)}
        self._buffer = Buffer(dtype)
        self._X = np.empty((0, len(names)), dtype)

    def kept(self, X: np.ndarray | Csr) -> np.ndarray | Csr:
        return X

    def sizes(self, X: np.ndarray | Csr) -> int:
        return 1

    def begin(self, copies: Sequence[tuple[np.ndarray, np.ndarray | Csr]]) -> None:
        n = int(sum(length.sum() for length, _ in copies))
        self._X = self._buffer.take(n, len(self._names), "F")

    def put(self, at: int, of: np.ndarray, X: np.ndarray | Csr, own: Own) -> None:
        assert isinstance(X, np.ndarray)
        for k, name in enumerate(self._names):
            j = self._places.get(name)
            self._X[at : at + len(of), k] = own(name) if j is None else X[of, j]

    def finish(self) -> np.ndarray:
        return self._X


class SparseFeatures(Features):
    """Sparse rows: the values stored below, and behind them those of the steps, all of them."""

    def __init__(self, names: Sequence[str], below: Sequence[str], dtype: np.dtype) -> None:
        places = {name: j for j, name in enumerate(below)}
        self._below = [places[name] for name in names if name in places]
        self._own = tuple(name for name in names if name not in places)
        written = (*(name for name in names if name in places), *self._own)
        at = {name: j for j, name in enumerate(written)}
        self._order = [at[name] for name in names]
        self._data, self._pointers = Buffer(dtype), Buffer(np.dtype(np.int64))
        self._indices = Buffer(np.dtype(np.int32))
        none = np.empty(0, dtype), np.empty(0, np.int32), np.zeros(1, np.int64)
        self._X = Csr(*none, len(names))

    def kept(self, X: np.ndarray | Csr) -> np.ndarray | Csr:
        if not isinstance(X, Csr):
            raise SourceError(
                "a map made dense rows of sparse ones, which rows at risk cannot follow; map the "
                "rows at risk instead (Dataset.at_risk, then Dataset.map)"
            )
        return X if is_all(self._below, X.n_columns) else select_csr(X, self._below)

    def sizes(self, X: np.ndarray | Csr) -> np.ndarray:
        assert isinstance(X, Csr)
        return np.diff(X.indptr) + len(self._own)

    def begin(self, copies: Sequence[tuple[np.ndarray, np.ndarray | Csr]]) -> None:
        n = entries = 0
        for length, X in copies:
            n += int(length.sum())
            entries += int((length * self.sizes(X)).sum())
            assert isinstance(X, Csr)
            if X.indices.dtype != self._indices.flat.dtype:
                self._indices = Buffer(X.indices.dtype)
        pointers = self._pointers.take(n + 1, 1)[:, 0]
        pointers[0] = 0
        data, indices = (b.take(entries, 1)[:, 0] for b in (self._data, self._indices))
        self._X = Csr(data, indices, pointers, len(self._order))

    def put(self, at: int, of: np.ndarray, X: np.ndarray | Csr, own: Own) -> None:
        assert isinstance(X, Csr)
        data, indices, pointers, _ = self._X
        stored = np.diff(X.indptr)[of]
        pointers[at + 1 : at + 1 + len(of)] = pointers[at] + np.cumsum(stored + len(self._own))
        begins = pointers[at : at + len(of)]
        before = np.cumsum(stored) - stored
        to = np.arange(int(stored.sum()))
        source = to + np.repeat(X.indptr[of] - before, stored)
        to += np.repeat(begins - before, stored)
        data[to], indices[to] = X.data[source], X.indices[source]
        for k, name in enumerate(self._own):
            to = begins + stored + k
            data[to], indices[to] = own(name), len(self._below) + k

    def finish(self) -> Csr:
        in_order = is_all(self._order, len(self._order))
        return self._X if in_order else select_csr(self._X, self._order)
