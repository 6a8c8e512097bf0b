"""Places where rows may be written: nobody reads them, and what lies there was written here."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..files.remote import filesystem, is_local, is_url, one_name

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

WRITTEN_BY = {"written_by": "streamlearn"}
"""Attribute of the zarr groups that are written here."""
_PART = re.compile(r"part-\d{10,}-\d{6}\.parquet")
"""Name of a parquet file that is written here."""


def place_of(said: str) -> tuple[AbstractFileSystem, str]:
    """(file system, path in it) of a path, its links followed, or of a URL."""
    if is_url(said):
        fs, path = filesystem(said)
    else:
        from fsspec.implementations.local import LocalFileSystem

        fs, path = LocalFileSystem(), said
    return fs, one_name(fs, path) if is_local(fs) else path.rstrip("/")


def name_of(said: str) -> str:
    """The one name of a path or URL, by `files.remote.one_name`."""
    return one_name(*place_of(said))


def refuse_place(said: str, reads: Sequence[str]) -> None:
    """Refuse an output that would take away what is read, or the folder one stands in.

    `reads` are `Store.locations`, or places by `name_of`.
    """
    fs, path = place_of(said)
    target = one_name(fs, path)
    for read in reads:
        how = _relation(target, read)
        if how:
            raise ValueError(
                f"the output {said} {how} {read}, which is read; choose a path away from it"
            )
    if is_local(fs) and _relation(target, os.path.realpath(os.getcwd())) in ("is", "holds"):
        raise ValueError(
            f"the output {said} is the current folder or holds it, and would be replaced by a "
            "folder of parts; choose a name in it, such as rows.parquet"
        )


def refuse_source(said: str, reads: Sequence[str]) -> None:
    """Refuse a file for an output that is one of those that are read, by `name_of`."""
    if name_of(said) in reads:
        raise ValueError(f"the output {said} is a file that is read; choose another name")


def _relation(target: str, other: str) -> str:
    """Word for how one place lies to another; empty if they are apart."""
    if target == other:
        return "is"
    if other.startswith(target.rstrip("/") + "/"):
        return "holds"
    return "lies in" if target.startswith(other.rstrip("/") + "/") else ""


def refuse_foreign(fs: AbstractFileSystem, target: str, said: str) -> None:
    """Refuse to replace what no writer of this package has made; `target` exists."""
    why = _foreign(fs, target)
    if why:
        raise FileExistsError(
            f"{said} exists already and is no earlier output, which is all that overwrite=True "
            f"replaces: {why}; remove it yourself, or choose another path"
        )


def _foreign(fs: AbstractFileSystem, target: str) -> str:
    """Sign that something else lies at `target`; empty if there is none."""
    if not fs.isdir(target):
        return "it is a file"
    names = sorted(posixpath.basename(path.rstrip("/")) for path in fs.ls(target, detail=False))
    if "zarr.json" in names:
        if not _is_written_here(fs.cat_file(posixpath.join(target, "zarr.json"))):
            return "it is a zarr store without the mark of this package"
        others = [
            name
            for name in names
            if name != "zarr.json" and not fs.exists(posixpath.join(target, name, "zarr.json"))
        ]
    else:
        others = [name for name in names if name != "_SUCCESS" and not _PART.fullmatch(name)]
    if others:
        return f"it holds {others[0]!r}"
    return "" if not names or {"_SUCCESS", "zarr.json"} & {*names} else "it has no _SUCCESS"


def _is_written_here(metadata: bytes) -> bool:
    """Whether the ``zarr.json`` of a group carries `WRITTEN_BY`."""
    try:
        attributes = json.loads(metadata)["attributes"]
        return {**attributes, **WRITTEN_BY} == attributes
    except (ValueError, LookupError, TypeError):
        return False
