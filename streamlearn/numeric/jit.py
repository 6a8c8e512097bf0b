"""`@kernel`: the one way this package compiles anything.

numba keeps compiled code by the source file of the outermost function and does not see an edit in a
function inlined from another file.  So the cache folder's name carries a hash of every file that
holds kernels: any edit starts a new folder, a second process finds every kernel in it.

numba names the files of one function 1, 2, 3, ... in the order in which they are written.  Two
processes that compile the same function for different types at the same time both take the next
number, and later one of the types runs the code of the other: wrong values without a word.  So
`CacheByKey` names each file by what it was compiled for.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numba
from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile

if TYPE_CHECKING:
    from numba.core.dispatcher import Dispatcher

Function: TypeAlias = Callable[..., object]

PACKAGE = Path(__file__).resolve().parent.parent
SHARED = ("data", "numeric", "passes", "solvers")


def kernel(function: Function) -> Dispatcher:
    """Compile on first call, without the GIL, with numpy's rules for division, cached on disk.

    `kernel(f).py_func` is f.  ``NUMBA_CACHE_DIR`` says where the cache lies (default: the user's
    cache folder); where nothing can be written kernels are compiled in each process.
    """
    return _compile(function, False)


def sum_kernel(function: Function) -> Dispatcher:
    """`kernel` for a pure sum: its terms may be added in another order, so that it vectorises.

    The order is fixed when it is compiled; NaN and infinity are treated as usual.
    """
    return _compile(function, {"reassoc"})


def uncached_kernel(function: Function) -> Dispatcher:
    """`kernel` for types defined outside this package, compiled anew in each process.

    A cached kernel names the types it was compiled for, and no other process could read it.
    """
    return _compile(function, False, cached=False)


def inlined(function: Function) -> Dispatcher:
    """`kernel` for what is called once a value: always inlined, however many arrays it takes.

    A call hands over a NamedTuple of arrays word by word, which can cost more than the work.
    """
    return _compile(function, False, forceinline=True)


def _compile(
    function: Function, fastmath: bool | set[str], *, cached: bool = True, **options: object
) -> Dispatcher:
    folder = cache_folder(room_of(function)) if cached and not config.DISABLE_JIT else None
    before = config.CACHE_DIR
    if folder is not None:
        config.CACHE_DIR = folder  # numba reads it while it decorates, and only then
    try:
        decorate = numba.njit(
            nogil=True,
            error_model="numpy",
            fastmath=fastmath,
            no_cfunc_wrapper=True,  # for callers in C, of which there are none
            **options,
        )
        compiled = decorate(function)
        if folder is not None:
            compiled._cache = CacheByKey(function)  # as `Dispatcher.enable_caching` does
        return compiled
    finally:
        config.CACHE_DIR = before


class CacheByKey(FunctionCache):
    """numba's cache of one function, safe for processes that write it at the same time."""

    def __init__(self, py_func: Function) -> None:
        super().__init__(py_func)
        self._cache_file = FilesByKey(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )


class FilesByKey(IndexDataCacheFile):
    """The compiled forms of one function, each in a file named by a hash of its key.

    The worst that two writers can do to each other is to drop an entry of the index, whose form is
    then compiled again.
    """

    def save(self, key: object, data: object) -> None:
        name = self._data_name(int(hashlib.sha256(self._dump(key)).hexdigest()[:15], 16))
        self._save_data(name, data)
        overloads = self._load_index()
        if overloads.get(key) != name:
            self._save_index({**overloads, key: name})


def room_of(function: Function) -> str:
    """The family a kernel belongs to; ``"shared"`` if none."""
    path = Path(function.__code__.co_filename).resolve()
    family = path.relative_to(PACKAGE).parts[0] if path.is_relative_to(PACKAGE) else ""
    return "shared" if family in ("", *SHARED) else family


@cache
def cache_folder(room: str = "shared") -> str | None:
    """The folder of a room's compiled kernels, made and tried; None and a warning if it fails."""
    base = os.environ.get("NUMBA_CACHE_DIR") or _user_cache()
    folder = Path(base, f"streamlearn-{room}-{kernel_hash(room)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        _warn_once(base, error.strerror or str(error))
        return None
    return str(folder)


@cache
def _warn_once(base: str, reason: str) -> None:
    warnings.warn(
        f"compiled kernels cannot be kept in {base} ({reason}); "
        "each process compiles its own, 10 to 20 s. Set NUMBA_CACHE_DIR to a folder that "
        "can be written.",
        stacklevel=5,
    )


@cache
def kernel_hash(room: str) -> str:
    """Hash of every source file whose kernels a kernel of this room can hold."""
    digest = hashlib.sha256()
    for path in kernel_files(room):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def kernel_files(room: str) -> list[Path]:
    """Every file under `numeric`, and every ``kernels*.py`` of the shared rooms and this one."""
    rooms = {*SHARED, room} - {"shared"}
    named = [path for name in rooms for path in (PACKAGE / name).rglob("kernels*.py")]
    return sorted({*(PACKAGE / "numeric").rglob("*.py"), *named})


def _user_cache() -> str:
    return os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
