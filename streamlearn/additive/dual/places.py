"""Codes of sparse rows: which problems they serve, where coefficients lie, room for them."""

from __future__ import annotations

from threading import Lock

import numpy as np
import numpy.typing as npt

from ...numeric.bases.bsplines import Columns
from ...numeric.simd.gather import CLASSES, LANES
from ...passes.summary.counts.kernels_bytes import BYTES
from ..objective import Problem
from .epochs import find_scales
from .kernels_codes import MOST_PLACES, Known, Places, Spans, byte_codes
from .kernels_tables import POINTS, RAMPS


class Room:
    """Arrays that chunks put their codes into, in any order; more if the first are too small."""

    def __init__(self, size: int, dtype: npt.DTypeLike = np.uint32) -> None:
        self._dtype = dtype
        self._size, self._used, self._before, self._lock = max(size, 1), 0, 0, Lock()
        self._blocks = [self._new(self._size)]

    def _new(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(size, self._dtype), np.empty(size, np.float32)

    def take(self, n: int) -> tuple[np.ndarray, np.ndarray, int, int]:
        """(slot, f, start, offset): n free places from `start`; `offset` more when all are one."""
        with self._lock:
            if self._used + n > len(self._blocks[-1][0]):
                self._before += len(self._blocks[-1][0])
                self._blocks.append(self._new(max(n, self._size)))
                self._used = 0
            start = self._used
            self._used += n
            return *self._blocks[-1], start, self._before

    def all(self) -> tuple[np.ndarray, np.ndarray]:
        """(slot, f) of all; given up."""
        blocks, self._blocks = self._blocks, []
        if len(blocks) == 1:
            return blocks[0]
        slot, f = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return slot, f


def find_known(columns: Columns, spans: Spans, wanted: bool) -> Known:
    """The codes of bytes, if `wanted`; else none."""
    row = np.where(columns.n_intervals > 0, 0, -1)
    first: list[int] = []
    seen: dict[object, int] = {}
    for d in np.flatnonzero(row == 0) if wanted else ():
        knots = columns.knots[columns.at[d] : columns.at[d + 1]]
        row[d] = seen.setdefault((spans.scale[d], knots.tobytes()), len(first))
        if row[d] == len(first):
            first.append(d)
    most = int(columns.n_intervals.max(initial=0))
    j = np.zeros((len(first), BYTES), np.uint8 if most <= BYTES else np.uint32)
    return byte_codes(columns, spans, row, np.array(first, np.intp), j)


def class_groups(n_classes: int) -> list[tuple[int, int]]:
    """The first and last of the classes that are visited together, about as many in each group."""
    n = -(-n_classes // CLASSES)
    ends = [n_classes * g // n for g in range(n + 1)]
    return list(zip(ends[:-1], ends[1:], strict=True))


def find_codes(problem: Problem, sparse: bool) -> tuple[int, np.ndarray] | None:
    """(kind, (p,) s) of the places where codes serve the problem, else None.

    They serve splines of degree 1 whose first breakpoint is 0, of orders 0 and 1, and outputs of
    one loss.
    """
    bases, c = problem.bases, problem.reference.c
    used = np.diff(bases.first) > 0
    if not sparse or bases.dense or bases.has_missing.any() or not used.any() or problem.levels:
        return None
    if bases.dim + LANES * len(used) >= MOST_PLACES:
        return None
    if not (bases.degree[used] == 1).all() or not (c[bases.first[:-1][used]] == 1.0).all():
        return None
    scales = find_scales(bases, problem.roughness, from_zero=True)
    for kind in (RAMPS, POINTS):
        if np.isfinite(scales[kind]).all():
            return kind, scales[kind]
    return None


def make_places(
    problem: Problem, kind: int, scale: np.ndarray, dtype: np.dtype
) -> tuple[Spans, Places]:
    """Columns one after the other; ramps in whole vectors."""
    n, K = np.diff(problem.bases.first), problem.n_outputs
    whole = 1 if kind == POINTS else LANES if K == 1 else 2
    room = -(-n // whole) * whole
    at = np.concatenate([[0], np.cumsum(room)]).astype(np.intp)

    def of_places(x: np.ndarray, kind: npt.DTypeLike) -> np.ndarray:
        # a value at the end of the last column looks one place on
        return np.concatenate([np.repeat(x, room), np.zeros(LANES)]).astype(kind)

    scales = of_places(scale, dtype)
    if kind == POINTS:
        scales[at[:-1][n > 0]] = 0.0
    places = Places(
        int(kind),
        scales,
        of_places(at[:-1], np.int32),
        of_places(room, np.int32),
        1 if K == 1 else CLASSES,
    )
    return Spans(int(kind), at, np.array(scale, np.float64)), places
