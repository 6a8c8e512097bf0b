"""Freed blocks given back to the system, so that a plan's sum is what the process holds."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

M_MMAP_THRESHOLD = -3
BLOCK_BYTES = 1 << 20


@cache
def return_freed_blocks() -> None:
    """Have glibc map blocks of 1 MiB and more one by one; process-wide, other systems: nothing.

    By default its threshold rises to the largest block ever freed (up to 32 MiB), and chunks and
    states that threads have freed then stay in their arenas: measured, half as much again.
    """
    if "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return
    mallopt = in_libc("mallopt")
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, BLOCK_BYTES)


def trim_heaps() -> None:
    """Give the free pages of every heap back: what one lane leaves is in the way of the next."""
    trim = in_libc("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def in_libc(name: str) -> Any:
    """The C library's function of this name; None if it has none."""
    return getattr(ctypes.CDLL(None), name, None)
