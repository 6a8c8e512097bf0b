"""BLAS on one thread: its own threads would fight the lanes, and change the bits of its results."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import LibController

_LOCK = threading.Lock()
_HOLDERS = 0
_BEFORE: list[tuple[LibController, int]] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, process-wide, until the last of all nested holders leaves."""
    global _HOLDERS, _BEFORE
    with _LOCK:
        _HOLDERS += 1
        if _HOLDERS == 1:
            # A library loaded later would not be held; scipy brings a BLAS of its own.
            import scipy.linalg  # noqa: F401

            _BEFORE = [(library, library.num_threads) for library in _libraries(len(sys.modules))]
            _set((library, 1) for library, _ in _BEFORE)
    try:
        yield
    finally:
        with _LOCK:
            _HOLDERS -= 1
            if _HOLDERS == 0:
                _set(_BEFORE)


@lru_cache(1)
def _libraries(n_modules: int) -> list[LibController]:
    """The BLAS libraries, looked for anew only once more modules are loaded: it takes 2 ms."""
    from threadpoolctl import ThreadpoolController

    libraries: list[LibController] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def _set(n_threads: Iterable[tuple[LibController, int]]) -> None:
    """Set every library's threads.

    threadpoolctl 3.8 obeys one thread, the first that set a limit, and ignores all others until
    that one gives way.  Holders enter and leave on any thread: each gives way at once.
    """
    for library, n in n_threads:
        _give_way(library)
        library.set_num_threads(n)
        _give_way(library)


def _give_way(library: LibController) -> None:
    try:
        give_way = library.clear_controlling_thread
    except AttributeError:
        return  # before threadpoolctl 3.8
    give_way(force=True)
