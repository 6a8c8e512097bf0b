"""Test of a path: a file can be read to its end, a pipe would be waited for."""

from __future__ import annotations

import os
import stat

from ...errors import StreamlearnError


def refuse_unless_file(path: str | os.PathLike[str], error: type[StreamlearnError]) -> None:
    """Raise `error` for a folder, pipe, socket or device: reading these may never end.

    A path that does not exist raises FileNotFoundError, as opening it would.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
        raise error(
            f"{os.fspath(path)} is {kind}, expected a file; give the path of the file itself"
        )
