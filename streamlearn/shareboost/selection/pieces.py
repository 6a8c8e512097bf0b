"""The best piece: all anchors and radii scored in one read (section 3.2).

A piece is (x, 1) where d = |x - anchor|^2 < radius^2, and 0 elsewhere.  For each anchor, a read
adds the row's residuals times (x, 1) to the sums of the least radius that holds the row; the
cumulative sums over the radii are the gradients of all pieces.  A soft piece is (1 - d / radius^2)
(x, 1), so its gradient is the same sum minus that of d (x, 1), divided by radius^2.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from ...data.order import derive_seed
from ...data.source import Chunk, Source
from ...engine.run import Run
from ...passes.fold import Fold, RowState
from ...passes.sums import add_sums
from ...solvers.kmeans import distances, lloyd, plus_plus
from ..reads import Reader
from .candidates import Choice, Pieces
from .kernels import add_squares, gather_radii, sum_by_radius
from .scoring import FLAT, Bound, Shortlist, Step

SAMPLE_ROWS = 20_000
"""Rows of the sample in which the anchors begin."""
LLOYD_READS = 10
"""Largest number of reads that move the anchors."""
LLOYD_TOL = 1e-3
INNERMOST, OUTERMOST = 0.02, 1.0
"""Quantiles of the sampled rows' distances to an anchor that are its first and its last radius."""
VECTOR = 8
"""Numbers in a vector of the processor: float64 at 512 bits."""
TOGETHER = 8192
"""Rows summed in their own dtype before the sums are added in float64."""
ROUNDED = 64
"""Units of rounding by which a squared radius exceeds the squared distance it comes from."""
PIECES = ("pieces", "soft-pieces")
"""Values of the parameter `candidates` that search pieces."""
_PURPOSE = 0x616E63686F7273

State = dict[str, np.ndarray]


class Progress(TypedDict):
    """The part of a `PieceSearch` that a checkpoint stores."""

    closed: list[Choice]
    moments: tuple[np.ndarray, np.ndarray] | None


class Scored(NamedTuple):
    """One piece with its score; the best sort first."""

    loss: float
    """Score, negative."""
    choice: tuple[int, int]
    gain: float
    step: Step
    variance: np.ndarray
    """(p + 1,) variances of its features."""


def make_pieces(
    run: Run, source: Source, sample: Chunk, n_anchors: int, n_radii: int, seed: int
) -> Pieces:
    """Anchors by k-means, which begins in a sample, and radii at quantiles of distances."""
    generator = np.random.Generator(np.random.Philox(derive_seed(seed, _PURPOSE)))
    X = np.asarray(sample.X, np.float64)
    anchors = plus_plus(X, sample.weight, n_anchors, generator)
    anchors, *_ = lloyd(run, source, anchors, max_passes=LLOYD_READS, tol=LLOYD_TOL, name="anchors")
    squares = np.sort(distances(X[:: max(1, len(X) // 2000)], anchors), axis=0)
    shares = np.linspace(INNERMOST, OUTERMOST, n_radii) if n_radii > 1 else np.array([0.5])
    limits = squares[((len(squares) - 1) * shares).astype(np.intp)].T.astype(source.dtype)
    # the last radius holds every sampled row, so that its piece is linear in most of the space;
    # the kernels compute these distances with another rounding
    limits = np.ascontiguousarray(
        limits * source.dtype.type(1 + ROUNDED * np.finfo(source.dtype).eps)
    )
    if not limits.any():
        raise ValueError(
            "candidates='pieces' found all sampled rows at their anchors: there are no distances "
            "to take radii from; lower n_anchors, or use 'columns'"
        )
    return Pieces(np.ascontiguousarray(anchors.astype(source.dtype)), limits)


def sums_of(candidates: str, n_classes: int) -> int:
    """Largest number of sums of a feature in the state of a read: residuals, or moments."""
    return max(2 * n_classes, 5) if candidates == "soft-pieces" else max(n_classes, 2)


def pieces_fold(pieces: Pieces, residual: RowState) -> Fold[State, State]:
    """Fold of the residuals times (x, 1) by least radius, and of the residuals alone.

    The first are (anchors, radii, K, p + 1); soft pieces have 2K sums in place of K.
    """
    n = residual.width * (2 if pieces.soft else 1)
    return Fold(
        partial(_start, pieces, n, residual.width),
        partial(_step, pieces),
        add_sums,
        rows=(residual,),
    )


def moments_fold(pieces: Pieces, total_weight: float) -> Fold[State, State]:
    """Fold of (x, 1) and its squares by least radius, (anchors, radii, 2, p + 1); 5 if soft."""
    n = 5 if pieces.soft else 2
    return Fold(
        partial(_start, pieces, n, 1), partial(_add_moments, pieces, total_weight), add_sums
    )


def _start(pieces: Pieces, n: int, n_total: int) -> State:
    A, p = pieces.anchors.shape
    return {"G": np.zeros((A, pieces.limits.shape[1], n, p + 1)), "total": np.zeros(n_total)}


def _step(pieces: Pieces, state: State, chunk: Chunk) -> State:
    X, R = np.ascontiguousarray(chunk.dense), np.ascontiguousarray(chunk.state["residual"])
    V = _with_one(X, np.result_type(X, R))
    inner = np.empty((*state["G"].shape[1:3], V.shape[1]), V.dtype)
    for a in range(0, len(X), TOGETHER):
        some = slice(a, a + TOGETHER)
        sum_by_radius(X[some], V[some], R[some], pieces.anchors, pieces.limits, inner, state["G"])
    state["total"] += R.sum(axis=0, dtype=np.float64)
    return state


def _with_one(X: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The rows (x, 1, 0, ...), as wide as whole vectors of the processor."""
    m, p = X.shape
    V = np.zeros((m, -(-(p + 1) // VECTOR) * VECTOR), dtype)
    V[:, :p] = X
    V[:, p] = 1
    return V


def _add_moments(pieces: Pieces, total_weight: float, state: State, chunk: Chunk) -> State:
    share = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight.astype(np.float64)
    share = share / total_weight
    X = np.ascontiguousarray(chunk.dense)
    add_squares(X, _with_one(X, X.dtype), share, pieces.anchors, pieces.limits, state["G"])
    state["total"] += share.sum()
    return state


class PieceSearch:
    """Scores all pieces in one read, or in one for each block of anchors.

    Parameters
    ----------
    read : Reader
    pieces : Pieces
    residual : RowState
    block : int
        Number of anchors scored in one read.
    rule, bound : as in `scoring.ListSearch`
    """

    def __init__(
        self, read: Reader, pieces: Pieces, residual: RowState, total_weight: float, *, block: int,
        rule: str, bound: Bound,
    ) -> None:  # fmt: skip
        self._read, self._pieces, self._residual = read, pieces, residual
        self._block, self._rule, self._bound = block, rule, bound
        self._total_weight = total_weight
        self._moments: tuple[np.ndarray, np.ndarray] | None = None
        self._closed: set[Choice] = set()

    @property
    def n_open(self) -> int:
        return self._pieces.limits.size - len(self._closed)

    def state(self) -> Progress:
        return {"closed": sorted(self._closed), "moments": self._moments}

    def restore(self, state: Progress) -> None:
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
        rows: list[Scored] = []
        largest = 0.0
        for a in range(0, len(self._pieces.anchors), self._block):
            part = self._part(a)
            sums = self._read(pieces_fold(part, self._residual), None, "pieces")
            G, total = sums["G"], sums["total"]
            mean, variance = (part_of[a : a + self._block] for part_of in self._moments)
            l1 = np.empty(mean.shape)
            gather_radii(G, total, part.limits.astype(np.float64), mean, l1)
            usable = variance > 0
            l1 *= usable
            spread = self._bound(np.where(usable, variance, 1.0))
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
                    slope = G[i, r, : len(total), j] - total * mean[i, r, j]
                    u = -l1[i, r, j] / spread[i, r, j] * np.sign(slope)
                    step = (j, u, float(mean[i, r, j]))
                    at_piece = (a + i, r), float(gain[j]), step, variance[i, r].astype(np.float64)
                    rows.append(Scored(-float(score[i, r]), *at_piece))
            rows.sort(key=lambda row: row[:2])
            del rows[n:]
        return Shortlist(
            [row.choice for row in rows],
            np.array([-row.loss for row in rows]),
            np.array([row.gain for row in rows]),
            [row.step for row in rows],
            [row.variance for row in rows],
            largest,
        )

    def _part(self, first: int) -> Pieces:
        """A block of anchors."""
        cut = slice(first, first + self._block)
        return self._pieces._replace(
            anchors=self._pieces.anchors[cut], limits=self._pieces.limits[cut]
        )

    def _read_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(anchors, radii, p + 1) mean and variance of every feature; float32 suffices to scale."""
        means, variances = [], []
        for a in range(0, len(self._pieces.anchors), self._block):
            part = self._part(a)
            G = self._read(moments_fold(part, self._total_weight), None, "moments")["G"]
            np.cumsum(G, axis=1, out=G)
            mean, square = G[:, :, 0], G[:, :, 1]
            if part.soft:  # E w x and E w^2 x^2, w = 1 - d / limit
                limit = np.where(part.limits > 0, part.limits, 1).astype(np.float64)[:, :, None]
                mean = mean - G[:, :, 1] / limit
                square = G[:, :, 2] - 2 * G[:, :, 3] / limit + G[:, :, 4] / limit**2
            variance = square - mean**2
            variance[variance <= FLAT * square] = 0.0
            means.append(mean)
            variances.append(variance.astype(np.float32))
        return np.concatenate(means), np.concatenate(variances)
