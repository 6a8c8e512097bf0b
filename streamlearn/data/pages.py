"""Zeros in large pages of memory."""

from __future__ import annotations

import math
import mmap

import numpy as np

LARGE = 2 << 20
"""Bytes of a large page."""


def resident(nbytes: int) -> int:
    """Bytes that `zeros` of this size hold: what fills most of a large page has all of it."""
    whole, rest = divmod(nbytes, LARGE)
    return nbytes if 2 * rest < LARGE else (whole + 1) * LARGE


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros of float64, in large pages where the system has them.

    For states that every lane makes anew: where threads work at once, the first touch of a small
    page can take 10 us, and 3 MB are 800 of them.
    """
    n = math.prod(shape)
    nbytes = resident(8 * n)
    whole = nbytes // LARGE * LARGE
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if not whole or advice is None:
        return np.zeros(shape)
    room = mmap.mmap(-1, nbytes + LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -np.frombuffer(room, np.uint8).ctypes.data % LARGE
    try:
        room.madvise(advice, start, whole)
    except OSError:  # a kernel without them
        return np.zeros(shape)
    return np.frombuffer(room, np.float64, n, start).reshape(shape)
