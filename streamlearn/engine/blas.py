"""BLAS on one thread: its own threads would fight the lanes, and change the bits of its results."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_LOCK = threading.Lock()
_HOLDERS = 0
_LIMITS: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, process-wide, until the last of all nested holders leaves."""
    global _HOLDERS, _LIMITS
    with _LOCK:
        _HOLDERS += 1
        if _HOLDERS == 1:
            # A library loaded later would not be held; scipy brings a BLAS of its own.
            import scipy.linalg  # noqa: F401

            _LIMITS = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _LOCK:
            _HOLDERS -= 1
            if _HOLDERS == 0:
                _LIMITS.restore_original_limits()
                _LIMITS = None


@lru_cache(1)
def _libraries(n_modules: int) -> Any:
    """The BLAS libraries, looked for anew only once more modules are loaded: it takes 2 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
