"""Zeros in large pages of memory."""

from __future__ import annotations

import math
import mmap

import numpy as np
import numpy.typing as npt

LARGE = 2 << 20
"""Bytes of a large page."""


def resident(nbytes: int) -> int:
    """Bytes that rounded `zeros` of this size hold: of a last page used by half, the whole."""
    whole, rest = divmod(nbytes, LARGE)
    return nbytes if 2 * rest < LARGE else (whole + 1) * LARGE


def zeros(
    shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64, *, rounded: bool = False
) -> np.ndarray:
    """Zeros in large pages where the system has them; the last part of one in small pages.

    For what every lane makes anew: where threads work at once, the first touch of a small page can
    take 10 us, and 3 MB are 800 of them.  `rounded`: as `resident` says, for fewer yet.
    """
    n, size = math.prod(shape), np.dtype(dtype).itemsize
    nbytes = resident(size * n) if rounded else size * n
    whole = nbytes // LARGE * LARGE
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if not whole or advice is None:
        return np.zeros(shape, dtype)
    room = mmap.mmap(-1, nbytes + LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -np.frombuffer(room, np.uint8).ctypes.data % LARGE
    try:
        room.madvise(advice, start, whole)
    except OSError:  # a kernel without them
        return np.zeros(shape, dtype)
    return np.frombuffer(room, dtype, n, start).reshape(shape)
