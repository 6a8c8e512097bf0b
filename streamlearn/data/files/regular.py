"""Tests of a path: a file can be read to its end, and an output can be written."""

from __future__ import annotations

import os
import stat
import tempfile

from ...errors import StreamlearnError
from .remote import filesystem, is_url


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


def refuse_unwritable(
    path: str | os.PathLike[str], *, folder: bool = False, local: bool = False
) -> None:
    """Refuse an output that cannot be written, before the work that makes it.

    A file lies in a folder that is there; a `folder` is made, with its parents.  Of a URL only its
    protocol is looked at; what writes to `local` paths alone takes it for one.
    """
    said = os.fspath(path)
    if is_url(said) and not local:
        filesystem(said)
        return
    place = os.path.abspath(said)
    if folder:
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        if not os.path.isdir(place):
            raise NotADirectoryError(
                f"the output {said} cannot be a folder, since {place} is none; choose another path"
            )
    else:
        if os.path.isdir(place) or said.endswith("/"):
            raise IsADirectoryError(
                f"the output {said} is a folder; give the name of a file, which may lie in it"
            )
        if os.path.exists(place) and not os.path.isfile(place):
            raise OSError(f"the output {said} is a pipe, socket or device; give the name of a file")
        place = os.path.dirname(place)
        if not os.path.isdir(place):
            raise FileNotFoundError(
                f"no folder {place} for the output {said}; make it, or choose another path"
            )
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise OSError(
            f"the output {said} cannot be written: {place} takes no new file ({error.strerror}); "
            "choose a folder you may write to"
        ) from error
