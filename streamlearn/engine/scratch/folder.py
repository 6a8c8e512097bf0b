"""The scratch folder of a run: made when first needed, removed at the end.

Its name carries host and process, so that the next start on this host removes what a killed process
left behind.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from ...config import format_bytes, get_config
from ...errors import ScratchError
from ..processes import identity_of, is_alive

_NAME = re.compile(r"streamlearn-(?P<host>.+)-(?P<pid>\d+)-[0-9a-f]{8}")
_OWNER = "owner.json"
_UNUSABLE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.EEXIST, errno.ENOTDIR, errno.ENOENT, errno.EIO, errno.EFBIG),
}


def scratch_root() -> Path:
    """Folder in which scratch folders are made: ``scratch=``, else dask's, else the system's."""
    import dask

    chosen = get_config().scratch
    if chosen is False:
        raise ScratchError(
            "this fit needs scratch files but scratch is False; pass a folder, for example "
            'config_context(scratch="/path/with/room")'
        )
    return Path(chosen or dask.config.get("temporary-directory", None) or tempfile.gettempdir())


def scratch_allowed() -> bool:
    """Whether the settings allow scratch files at all."""
    return get_config().scratch is not False


def lies_in_memory(folder: Path) -> bool:
    """Whether files in this folder occupy memory (tmpfs), so that a plan must count them."""
    folder = folder.absolute()
    mounts = [
        part for part in psutil.disk_partitions(all=True) if part.fstype in ("tmpfs", "ramfs")
    ]
    all_points = {Path(part.mountpoint) for part in psutil.disk_partitions(all=True)}
    nearest = next((point for point in (folder, *folder.parents) if point in all_points), None)
    return nearest is not None and str(nearest) in {part.mountpoint for part in mounts}


def free_bytes(folder: Path) -> int:
    """Free space where a folder is, or would be made."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


@contextmanager
def scratch_write(path: str | os.PathLike[str], n_bytes: int) -> Iterator[None]:
    """Errors of writing `n_bytes` to `path` become a `ScratchError` saying where and how much."""
    try:
        yield
    except OSError as error:
        if error.errno not in _UNUSABLE or isinstance(error, ScratchError):
            raise
        folder = Path(path).parent
        raise ScratchError(
            f"cannot write {format_bytes(n_bytes)} to scratch folder {folder} "
            f"({format_bytes(free_bytes(folder))} free): {error.strerror}; "
            'pass a folder with room, for example config_context(scratch="/path/with/room")'
        ) from error


@contextmanager
def probe_file(folder: str, mark: str) -> Iterator[None]:
    """A file in `folder` for `see_probe` to find."""
    path = Path(folder, f"probe-{mark}")
    with scratch_write(path, len(mark)):
        path.write_text(mark)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def see_probe(folder: str, mark: str) -> str:
    """Runs on a worker: why it cannot read and write in `folder`; empty if it can."""
    path = Path(folder, f"probe-{mark}")
    own = Path(folder, f"probe-{mark}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        if path.read_text() != mark:
            return f"{path} holds something else"
        own.write_text(mark)
        own.unlink()
    except OSError as error:
        return f"{error.strerror} ({error.filename})"
    return ""


class ScratchFolder:
    """A folder that exists from its first use until `remove`."""

    def __init__(self) -> None:
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        if self._path is None:
            root = scratch_root()
            remove_dead(root)
            name = f"streamlearn-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
            with scratch_write(root / name / _OWNER, 4096):
                root.mkdir(parents=True, exist_ok=True)
                (root / name).mkdir()
                (root / name / _OWNER).write_text(json.dumps(identity_of(os.getpid())))
            self._path = root / name
        return self._path

    def subfolder(self, kind: str) -> Path:
        """A new folder inside."""
        folder = self.path / f"{kind}-{secrets.token_hex(4)}"
        with scratch_write(folder / "any", 4096):
            folder.mkdir()
        return folder

    def require(self, n_bytes: int) -> None:
        """Refuse before the first byte is written if there is no room for `n_bytes`."""
        free = free_bytes(self.path)
        if free < n_bytes:
            raise ScratchError(
                f"scratch folder {self.path} needs {format_bytes(n_bytes)} but has "
                f"{format_bytes(free)} free; free some, or pass a folder with room, for example "
                'config_context(scratch="/path/with/room")'
            )

    def remove(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def remove_dead(root: Path) -> None:
    """Remove the scratch folders in `root` whose process, of this host, is no more."""
    if not root.is_dir():
        return
    for folder in root.iterdir():
        match = _NAME.fullmatch(folder.name)
        if match is None or match["host"] != socket.gethostname() or not folder.is_dir():
            continue
        try:
            owner = json.loads((folder / _OWNER).read_text())
        except (OSError, ValueError):
            continue  # another user's, or just being made
        if not isinstance(owner, dict):
            continue  # not ours
        if is_alive({**owner, "host": match["host"], "pid": int(match["pid"])}) is False:
            shutil.rmtree(folder, ignore_errors=True)
