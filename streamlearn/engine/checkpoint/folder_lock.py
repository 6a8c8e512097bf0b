"""One fit at a time in a checkpoint folder, by the operating system's lock (`flock`).

The lock goes with the process that had it, however that ended, so that nobody ever waits for a dead
one.  Over NFS it holds between hosts, unless the folder is mounted with ``nolock`` or
``local_lock``: then hosts do not see each other's locks, and fits on two hosts need two folders.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ...errors import CheckpointError
from .holder import has_ended, holder_in, refusal, taken_away, this_holder
from .lease import lease

LOCK = "lock.json"
NAMING_S = 2.0
"""Seconds that a holder has to write its name once it has the lock, before it is called unknown."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_open_locks: set[int] = set()
"""Handles of the locks of this process: a forked child, which inherits them, closes them."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[Callable[[], None]]:
    """Have the folder to oneself in the block.

    Yields a function that raises if the folder was removed or replaced meanwhile.  A file system
    without locks is served by a lease, as a URL is.
    """
    with ExitStack() as stack:
        try:
            handle = _locked(folder)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            (folder / LOCK).unlink(missing_ok=True)  # which nobody can lock
            yield stack.enter_context(lease(str(folder)))
            return
        stack.callback(_release, folder, handle, os.getpid())
        text = this_holder()
        os.ftruncate(handle, 0)
        os.pwrite(handle, text, 0)

        def check() -> None:
            if not _is_at(folder / LOCK, handle):
                raise taken_away(str(folder))

        yield check


def _locked(folder: Path) -> int:
    """The open, locked file of the lock; refused if another fit has it."""
    patience = time.monotonic() + NAMING_S
    while True:
        handle = _opened(folder / LOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(folder / LOCK, handle):  # else its last holder has removed it: the next one
                _open_locks.add(handle)
                return handle
        except BlockingIOError:
            holder = holder_in(os.pread(handle, 4096, 0))
            is_named = holder and not has_ended(holder)  # else the name is that of the one before
            if is_named or time.monotonic() > patience:
                raise refusal(str(folder), holder if is_named else {}) from None
            time.sleep(0.02)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _opened(path: Path) -> int:
    """The lock's file, never one that a link leads to, as the holder's name is written into it."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _foreign(path) from error
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        os.close(handle)
        raise _foreign(path)
    return handle


def _foreign(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path} is a link, a folder or a device, where a fit makes a file: the checkpoint was "
        "changed by others; do not trust it, remove it to start anew"
    )


def _is_at(path: Path, handle: int) -> bool:
    """Whether the open file still has that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _release(folder: Path, handle: int, owner: int) -> None:
    """Remove the file while it is locked, so that whoever opened it sees that it is gone."""
    if os.getpid() != owner:  # a fork of the fit: the lock is its parent's
        return
    _open_locks.discard(handle)
    try:
        if _is_at(folder / LOCK, handle):
            with suppress(OSError):  # a folder that can no longer be written: a file is left
                os.unlink(folder / LOCK)
        fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough while a fork has it open
    finally:
        os.close(handle)


def _close_inherited() -> None:
    for handle in _open_locks:
        os.close(handle)
    _open_locks.clear()


os.register_at_fork(after_in_child=_close_inherited)
