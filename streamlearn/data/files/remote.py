"""File systems behind URLs, opened one way, with errors of one kind."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from ...config import get_config
from ...errors import SourceError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]+(://|::)")
_OWN_ERRORS = {
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "aiohttp": ("ClientError",),
}
"""Errors that network libraries raise and that are no OSError."""


CHECK_KEYS = "check the address and the credentials (storage_options=, or the environment)"


def is_url(path: object) -> bool:
    """Whether fsspec, not the operating system, is to open it (``s3://``, ``memory://``, ...)."""
    return isinstance(path, str) and _REMOTE.match(path) is not None


def url_options(storage_options: Mapping[str, object] | None) -> dict[str, object]:
    """The options a URL is opened with: those given, else the configured ones."""
    chosen = get_config().storage_options if storage_options is None else storage_options
    return dict(chosen or {})


def filesystem(
    url: str, storage_options: Mapping[str, object] | None = None
) -> tuple[AbstractFileSystem, str]:
    """(fsspec file system, path in it) of a URL."""
    from fsspec.core import url_to_fs

    try:
        return url_to_fs(url, **url_options(storage_options))
    except (ImportError, ValueError) as error:
        raise SourceError(f"cannot open {url!r}: {error}") from error


def is_local(fs: AbstractFileSystem | None) -> bool:
    """Whether a file system is that of this machine; None is, too."""
    if fs is None:
        return True
    return "file" in ([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)


def one_name(fs: AbstractFileSystem | None, path: str) -> str:
    """The path with all links followed, or the URL: one place has one name."""
    if is_local(fs) or fs is None:
        return os.path.realpath(path)
    return str(fs.unstrip_protocol(path)).rstrip("/")


@contextmanager
def as_os_errors() -> Iterator[None]:
    """Errors of network libraries become OSErrors: causes to try again, and to be named."""
    try:
        yield
    except _own_errors() as error:
        if isinstance(error, OSError):
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error


def _own_errors() -> tuple[type[Exception], ...]:
    """The error types of the remote libraries that are loaded; others cannot have raised."""
    return tuple(  # by name: the libraries are optional
        getattr(sys.modules[module], name)
        for module, names in _OWN_ERRORS.items()
        if module in sys.modules
        for name in names
    )


class RemoteFile:
    """An fsspec file opened to read, whose errors are OSErrors."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def info(self, fs: AbstractFileSystem, path: str) -> Mapping[str, object]:
        """The file's size and marks, as its file system gave them when the file was opened."""
        from fsspec.spec import AbstractBufferedFile

        with as_os_errors():
            found: Mapping[str, object] = (
                self._file.details
                if isinstance(self._file, AbstractBufferedFile)
                else fs.info(path)
            )
        return found

    def read(self, n: int = -1) -> bytes:
        with as_os_errors():
            content: bytes = self._file.read(n)
        return content

    def seek(self, to: int, whence: int = 0) -> int:
        at: int = self._file.seek(to, whence)
        return at

    def tell(self) -> int:
        at: int = self._file.tell()
        return at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
