"""BLAS on one thread: its own threads would fight the lanes, and change the bits of its results."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from ..numeric.malloc import in_libc

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

            _BEFORE = [(library, library.num_threads) for library in _libraries(count_loaded())]
            _set((library, 1) for library, _ in _BEFORE)
    try:
        yield
    finally:
        with _LOCK:
            _HOLDERS -= 1
            if _HOLDERS == 0:
                _set(_BEFORE)


class SharedObject(ctypes.Structure):
    """Facts of one shared object, as ``dl_iterate_phdr`` hands them over (Linux, BSD)."""

    _fields_: ClassVar = [
        ("address", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("n_headers", ctypes.c_uint16),
        ("n_loaded", ctypes.c_ulonglong),
        ("n_unloaded", ctypes.c_ulonglong),
    ]


_LOADED = [0]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(SharedObject), ctypes.c_size_t, ctypes.c_void_p)
def _look(info: ctypes._Pointer[SharedObject], size: int, data: object) -> int:
    _LOADED[0] = info.contents.n_loaded
    return 1  # the first object tells it of all


def count_loaded() -> int:
    """Number of shared objects that were ever loaded; of modules where the system does not tell.

    There are always new modules, nearly all of them Python.
    """
    walk = in_libc("dl_iterate_phdr")
    if walk is None:
        return len(sys.modules)
    walk(_look, None)
    return _LOADED[0]


@lru_cache(1)
def _libraries(n_loaded: int) -> list[LibController]:
    """The BLAS libraries, looked for anew only once more objects are loaded: it takes 2 ms."""
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
