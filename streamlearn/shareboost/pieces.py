"""The best piece: all anchors and radii scored in one read (section 3.2).

A piece is (x, 1) where |x - anchor| < radius.  A read adds each row's residuals times (x, 1) to the
least radius around each anchor that holds it; cumulative sums over radii are the gradients of all.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..data.order import derive_seed
from ..data.source import Chunk
from ..passes.fold import Fold, RowState
from ..solvers.kmeans import distances, lloyd, plus_plus
from .candidates import Choice, Pieces
from .kernels import add_squares, sum_by_radius
from .reading import Reader
from .scoring import FLAT, Shortlist

SAMPLE_ROWS = 20_000
LLOYD_READS = 10
LLOYD_TOL = 1e-3
INNERMOST, OUTERMOST = 0.02, 1.0
"""The radii are these quantiles of the distances between sampled rows and anchors, and between."""
_PURPOSE = 0x616E63686F7273

State = dict[str, np.ndarray]


def make_pieces(
    run: Any, source: Any, sample: Chunk, n_anchors: int, n_radii: int, seed: int
) -> Pieces:
    """Anchors by k-means, begun in a sample and moved by reads; radii at quantiles of distances."""
    generator = np.random.Generator(np.random.Philox(derive_seed(seed, _PURPOSE)))
    X = np.asarray(sample.X, np.float64)
    anchors = plus_plus(X, sample.weight, n_anchors, generator)
    anchors, *_ = lloyd(run, source, anchors, max_passes=LLOYD_READS, tol=LLOYD_TOL, name="anchors")
    squares = np.sort(distances(X[:: max(1, len(X) // 2000)], anchors), axis=None)
    shares = np.linspace(INNERMOST, OUTERMOST, n_radii) if n_radii > 1 else np.array([0.5])
    limits = np.unique(squares[((len(squares) - 1) * shares).astype(np.intp)])
    # the last holds every row that was sampled: with it a piece is linear in most of the space
    limits = np.nextafter(limits[limits > 0].astype(source.dtype), source.dtype.type(np.inf))
    if not len(limits):
        raise ValueError(
            "candidates='pieces' found all sampled rows at their anchors: there are no distances "
            "to take radii from; lower n_anchors, or use 'columns'"
        )
    return Pieces(np.ascontiguousarray(anchors.astype(source.dtype)), limits)


def pieces_fold(pieces: Pieces, residual: RowState) -> Fold:
    """Fold: (anchors, radii, K, p + 1) gradients, and the sum of R."""
    return Fold(
        partial(_start, pieces, residual.width), partial(_step, pieces), _merge, rows=(residual,)
    )


def moments_fold(pieces: Pieces, total_weight: float) -> Fold:
    """Fold: (anchors, radii, 2, p + 1) means and mean squares of the features."""
    return Fold(partial(_start, pieces, 2), partial(_add_moments, pieces, total_weight), _merge)


def _start(pieces: Pieces, n: int) -> State:
    A, p = pieces.anchors.shape
    return {"G": np.zeros((A, len(pieces.limits), n, p + 1)), "total": np.zeros(n)}


def _step(pieces: Pieces, state: State, chunk: Chunk) -> State:
    R = chunk.state["residual"].astype(np.float64)
    X = np.ascontiguousarray(chunk.X)
    sum_by_radius(X, R, pieces.anchors, pieces.limits, state["G"])
    state["total"] += R.sum(axis=0)
    return state


def _add_moments(pieces: Pieces, total_weight: float, state: State, chunk: Chunk) -> State:
    share = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    R = (share / total_weight)[:, None]
    X = np.ascontiguousarray(chunk.X)
    add_squares(X, R, pieces.anchors, pieces.limits, state["G"])
    state["total"] += R.sum()
    return state


def _merge(a: State, b: State) -> State:
    for key in a:
        a[key] += b[key]
    return a


class PieceSearch:
    """Scores all pieces in one read, or as many as there are blocks of anchors.

    Parameters
    ----------
    read : Reader
    pieces : Pieces
    residual : RowState
    block : int
        Anchors scored in one read.
    rule, bound : as in `scoring.ListSearch`
    """

    def __init__(
        self, read: Reader, pieces: Pieces, residual: RowState, total_weight: float, *, block: int,
        rule: str, bound: float,
    ) -> None:  # fmt: skip
        self._read, self._pieces, self._residual = read, pieces, residual
        self._block, self._rule, self._bound = block, rule, bound
        self._total_weight = total_weight
        self._moments: tuple[np.ndarray, np.ndarray] | None = None
        self._closed: set[Choice] = set()

    @property
    def n_open(self) -> int:
        return len(self._pieces.anchors) * len(self._pieces.limits) - len(self._closed)

    def state(self) -> dict[str, Any]:
        return {"closed": sorted(self._closed), "moments": self._moments}

    def restore(self, state: dict[str, Any]) -> None:
        self._closed = {tuple(choice) for choice in state["closed"]}
        self._moments = state["moments"]

    def moved(self, delta: float) -> None:
        """Nothing is kept from one search to the next."""

    def close(self, choice: Choice) -> None:
        self._closed.add(choice)

    def reopen(self, choice: Choice) -> None:
        self._closed.discard(choice)

    def search(self, n: int) -> Shortlist:
        """The n best pieces, exactly."""
        if self._moments is None:
            self._moments = self._read_moments()
        rows: list[Any] = []
        largest = 0.0
        for a in range(0, len(self._pieces.anchors), self._block):
            part = self._pieces._replace(anchors=self._pieces.anchors[a : a + self._block])
            sums = self._read(pieces_fold(part, self._residual), None, "pieces")
            G = np.cumsum(sums["G"], axis=1)
            mean, variance = (part_of[a : a + self._block] for part_of in self._moments)
            G -= sums["total"][:, None] * mean[:, :, None, :]
            l1 = np.abs(G).sum(axis=2)
            usable = variance > 0
            l1 *= usable
            spread = np.where(usable, variance, 1.0) + self._bound
            score = (l1 if self._rule == "l1" else l1 / np.sqrt(spread)).sum(axis=2)
            for choice in self._closed:
                if a <= choice[0] < a + len(score):
                    score[int(choice[0]) - a, int(choice[1])] = 0.0
            largest = max(largest, float(l1.max(initial=0.0)))
            for at in np.argsort(-score, axis=None, kind="stable")[:n]:
                i, r = divmod(int(at), score.shape[1])
                if score[i, r] > 0:
                    gain = l1[i, r] ** 2 / (2 * spread[i, r])
                    j = int(gain.argmax())
                    u = -l1[i, r, j] / spread[i, r, j] * np.sign(G[i, r, :, j])
                    step = (j, u, float(mean[i, r, j]))
                    rows.append((-float(score[i, r]), (a + i, r), float(gain[j]), step))
            rows.sort(key=lambda row: row[:2])
            del rows[n:]
        return Shortlist(
            [row[1] for row in rows],
            np.array([-row[0] for row in rows]),
            np.array([row[2] for row in rows]),
            [row[3] for row in rows],
            largest,
        )

    def _read_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(anchors, radii, p + 1) mean and variance of every feature; float32: they only scale."""
        means, variances = [], []
        for a in range(0, len(self._pieces.anchors), self._block):
            part = self._pieces._replace(anchors=self._pieces.anchors[a : a + self._block])
            G = np.cumsum(
                self._read(moments_fold(part, self._total_weight), None, "moments")["G"], axis=1
            )
            mean, square = G[:, :, 0], G[:, :, 1]
            variance = square - mean**2
            variance[variance <= FLAT * square] = 0.0
            means.append(mean)
            variances.append(variance.astype(np.float32))
        return np.concatenate(means), np.concatenate(variances)
