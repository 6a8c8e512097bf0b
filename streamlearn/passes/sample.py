"""A seeded sample of rows kept in memory, for what needs rows in hand (a Hessian, a first guess).

Which rows are drawn is a function of the seed and of the physical row number alone, or of that of
their subject: it is the same for any chunking, any number of workers, and after a resume.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ..data.order import derive_seed, row_share
from ..data.source import Chunk, Csr, Source, subjects_of
from .fold import Fold, Read, Result, both
from .fold import State as FoldState

_PURPOSE = 0x73616D706C65
"""Keeps the sample apart from splits and folds by the same seed: they hash the same row numbers."""

_PIECE = 1 << 20
"""Bytes up to which pieces are joined: a small slice gives a row or two, a long table many."""
State = dict[str, list[np.ndarray]]


class Sample(NamedTuple):
    """Rows in memory, in row order."""

    X: np.ndarray | Csr
    """(m, p) array or Csr, in the dataset's dtype."""
    y: np.ndarray | None
    weight: np.ndarray | None
    rows: np.ndarray
    """(m,) int64 physical row numbers."""

    def chunk(self) -> Chunk:
        """The sample as rows in hand."""
        return Chunk(self.X, self.y, self.weight, self.rows)


def sample_fold(dataset: Source, n_rows: int, seed: int) -> Fold[State, Sample]:
    """Fold: about `n_rows` rows, each kept if its subject's hash share is below n_rows / N.

    N is the dataset's number of rows, or of physical rows while a filtered one has not been counted
    (the sample then shrinks with the filter).  Rows of weight 0 are absent.  The state is the rows.
    """
    width = len(dataset.feature_names)
    kept = "sparse" if dataset.sparse else "dense"
    return Fold(
        _start,
        partial(_step, _drawing(dataset, n_rows, seed)),
        _merge,
        partial(_finish, width, kept, dataset.target is not None, dataset.is_weighted),
    )


def thinned(sample: Chunk, dataset: Source, n_rows: int, seed: int) -> Chunk:
    """The rows of a larger sample that one of about `n_rows` rows has."""
    return sample.where(_drawing(dataset, n_rows, seed).keeps(sample))


class _Drawing(NamedTuple):
    """The rows of a sample: those whose subject's hash has a share below that of the sample."""

    share: float
    seed: int
    siblings: int

    def keeps(self, chunk: Chunk) -> np.ndarray:
        """(m,) whether each row of the chunk is drawn."""
        if self.share >= 1.0:
            return np.ones(chunk.n_rows, bool)
        drawn: np.ndarray = row_share(subjects_of(chunk, self.siblings), self.seed) < self.share
        return drawn


def _drawing(dataset: Source, n_rows: int, seed: int) -> _Drawing:
    total = dataset.n_rows if dataset.n_rows is not None else dataset.n_physical_rows
    share = min(1.0, n_rows / max(total, 1))
    return _Drawing(share, derive_seed(seed, _PURPOSE), dataset.siblings)


class SampledRead:
    """Reads like `run_fold` and keeps a sample of the rows in the same read.

    A summary in blocks of columns is several reads; the same rows are drawn in each, so their
    columns put side by side are the sample of the whole, and numbers, targets and weights are kept
    once.  Of columns that are read again the rows are there already.
    """

    def __init__(self, run_fold: Read, n_rows: int, seed: int) -> None:
        self._run_fold, self._n_rows, self._seed = run_fold, n_rows, seed
        self._first: Sample | None = None
        self._blocks: list[np.ndarray | Csr] = []
        """The columns of each read."""
        self._names: set[str] = set()

    def __call__(self, fold: Fold[FoldState, Result], dataset: Source, *, name: str) -> Result:
        if self._blocks and self._names.issuperset(dataset.feature_names):
            return self._run_fold(fold, dataset, name=name)
        self._names.update(dataset.feature_names)
        extra = sample_fold(dataset, self._n_rows, self._seed)
        answers = self._run_fold(both(fold, extra), dataset, name=name)
        result: Result = answers[0]
        drawn: Sample = answers[1]
        self._first = self._first or drawn._replace(X=np.empty((0, 0)))
        self._blocks.append(drawn.X)
        return result

    def sample(self) -> Sample:
        """The sample of what was read; the blocks are given up."""
        blocks, self._blocks = self._blocks, []
        assert self._first is not None
        if len(blocks) == 1:
            return self._first._replace(X=blocks[0])
        sparse = [X for X in blocks if isinstance(X, Csr)]
        dense = [X for X in blocks if not isinstance(X, Csr)]
        return self._first._replace(X=_beside(sparse) if sparse else np.hstack(dense))


def sample_nbytes(dataset: Source, n_rows: int) -> int:
    """Bytes of a sample of about `n_rows` rows, while it is put together."""
    n_rows = min(n_rows, dataset.n_physical_rows)
    row = dataset.decoded_nbytes / max(dataset.n_physical_rows, 1)
    return int(n_rows * (2 * row + 32))


def _beside(blocks: list[Csr]) -> Csr:
    """Blocks of columns as one matrix."""
    from scipy.sparse import csr_matrix, hstack

    parts = [csr_matrix((b.data, b.indices, b.indptr), b.shape) for b in blocks]
    X = hstack(parts, format="csr")
    return Csr(X.data, X.indices, X.indptr.astype(np.int64), X.shape[1])


def _start() -> State:
    return {name: [] for name in ("rows", "X", "indices", "lengths", "y", "weight")}


def _step(drawing: _Drawing, state: State, chunk: Chunk) -> State:
    keep = drawing.keeps(chunk)
    if chunk.weight is not None:
        keep &= chunk.weight > 0
    if not keep.any():
        return state
    part = chunk.where(keep)
    X = part.X
    # the chunk's arrays are the reader's: whatever `where` passed through is copied
    if isinstance(X, Csr):
        _add(state["X"], X.data.copy())
        _add(state["indices"], X.indices.copy())
        _add(state["lengths"], np.diff(X.indptr))
    else:
        _add(state["X"], np.array(X, order="C"))
    _add(state["rows"], part.numbers)
    if part.y is not None:
        # strings as numpy's own: an array of objects is no plain tree
        _add(state["y"], part.y.astype(str) if part.y.dtype == object else np.array(part.y))
    if part.weight is not None:
        _add(state["weight"], part.weight.copy())
    return state


def _merge(a: State, b: State) -> State:
    merged = {name: list(pieces) for name, pieces in a.items()}
    for name, pieces in b.items():
        for piece in pieces:
            _add(merged[name], piece)
    return merged


def _add(pieces: list[np.ndarray], piece: np.ndarray) -> None:
    """One more piece, joined with the last ones of its size: few stay, and none is copied often."""
    pieces.append(piece)
    while len(pieces) > 1:
        last, before = pieces[-1], pieces[-2]
        if before.nbytes > 2 * last.nbytes or before.nbytes + last.nbytes > _PIECE:
            return
        pieces[-2:] = [np.concatenate([before, last])]


def _finish(width: int, kept: str, labelled: bool, weighted: bool, state: State) -> Sample:
    rows = _join(state["rows"], np.empty(0, np.int64))
    X: np.ndarray | Csr
    if kept == "sparse":
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(_join(state["lengths"], np.empty(0, np.int64)), out=indptr[1:])
        data = _join(state["X"], np.empty(0, np.float32))
        X = Csr(data, _join(state["indices"], np.empty(0, np.int32)), indptr, width)
    else:
        X = _join(state["X"], np.empty((0, width), np.float32))
    y = _join(state["y"], np.empty(0)) if labelled else None
    return Sample(X, y, _join(state["weight"], np.empty(0)) if weighted else None, rows)


def _join(parts: list[np.ndarray], empty: np.ndarray) -> np.ndarray:
    """One array; the parts are given up, so that the rows are not held twice for long."""
    joined = np.concatenate(parts) if len(parts) > 1 else (*parts, empty)[0]
    parts.clear()
    return joined
