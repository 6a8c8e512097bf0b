"""Lists of the files that a path, URL, glob, folder or list means, and values in folders' names."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np

from ...errors import SourceError
from .regular import refuse_unless_file
from .remote import CHECK_KEYS, as_os_errors, filesystem, is_url

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_SUFFIXES = (".parquet", ".parq", ".pq")
_NULL = "__HIVE_DEFAULT_PARTITION__"
READ_AHEAD = 4 << 20
"""Bytes fetched beyond a request from an object store: columns lie one after another."""


def find_files(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    storage_options: Mapping[str, object] | None = None,
) -> tuple[AbstractFileSystem, list[str], str, list[str]]:
    """(file system or None if local, paths, root, folders): files that `source` names, in order.

    Folders are searched for parquet files at any depth; names starting with ``_`` or ``.`` are left
    out, as the writers of such files mean them to be.  ``part.10`` comes after ``part.9``.
    `folders` are those that were searched.
    """
    if isinstance(source, str | os.PathLike):
        fs, paths, root, folders = _expand(source, storage_options)
    else:
        if not len(source):
            raise SourceError("an empty list of files; pass at least one path")
        found = [_expand(one, storage_options) for one in source]
        if len({None if fs is None else type(fs) for fs, *_ in found}) > 1:
            raise SourceError("a list of files on different file systems; open each on its own")
        fs, root = found[0][0], os.path.commonpath([root for _, _, root, _ in found])
        paths = [path for _, some, _, _ in found for path in some]
        folders = [folder for *_, some in found for folder in some]
    twice = [path for path, times in Counter(paths).items() if times > 1]
    if twice:
        raise SourceError(f"files named twice: {twice[:3]}; name each file once")
    return fs, paths, root, folders


def _expand(
    source: str | os.PathLike[str], storage_options: Mapping[str, object] | None
) -> tuple[AbstractFileSystem, list[str], str, list[str]]:
    folders = []
    if is_url(source):
        fs, path = filesystem(str(source), storage_options)
        local = False
    else:
        from fsspec.implementations.local import LocalFileSystem

        fs, path, local = LocalFileSystem(), os.path.abspath(os.fspath(source)), True
    try:
        with as_os_errors():
            if any(mark in path for mark in "*?[") and not fs.exists(path):
                paths = _glob(fs, path)
                root = os.path.dirname(re.split(r"[*?\[]", path)[0])
                wanted = "file matches the glob"
            elif fs.isdir(path):
                root, wanted = path.rstrip("/"), f"file ending in {', '.join(_SUFFIXES)} under"
                folders = [root]
                paths = [p for p in fs.find(path) if p.endswith(_SUFFIXES) and not _hidden(p, root)]
            elif fs.exists(path):
                paths, root, wanted = [path], os.path.dirname(path), ""
            else:
                raise SourceError(
                    f"no such path: {os.fspath(source)!r}; pass a parquet file, a list or glob of "
                    "them, a folder, a zarr store or a URL"
                )
    except OSError as error:
        hint = "" if local else f"; {CHECK_KEYS}"
        raise SourceError(f"cannot look into {os.fspath(source)!r}: {error}{hint}") from error
    if not paths:
        raise SourceError(f"no {wanted} {os.fspath(source)!r}")
    if local:
        for one in paths:
            refuse_unless_file(one, SourceError)
    return None if local else fs, sorted(paths, key=_natural), root, folders


def _glob(fs: AbstractFileSystem, pattern: str) -> list[str]:
    """The files of a glob, with one listing: asking for each whether it is a folder takes long."""
    found = fs.glob(pattern, detail=True)
    return [p for p, info in found.items() if info["type"] != "directory" and not _hidden(p, "")]


def _natural(path: str) -> list[tuple[int, str]]:
    return [(int(s), "") if s.isdigit() else (-1, s) for s in re.split(r"(\d+)", path)]


def _hidden(path: str, root: str) -> bool:
    parts = path[len(root) :].split("/") if root else [os.path.basename(path)]
    return any(part.startswith(("_", ".")) for part in parts)


def hive_values(path: str, root: str) -> dict[str, str | None]:
    """``{"year": "2024"}`` of ``root/year=2024/a.parquet``; None for Hive's null."""
    values: dict[str, str | None] = {}
    for part in path[len(root) :].split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals and name:
            values[unquote(name)] = None if value == _NULL else unquote(value)
    return values


def parse_partition(values: list[str | None]) -> np.ndarray:
    """Folder names as the smallest type that holds them all exactly: int, float or string."""
    said = [value for value in values if value is not None]
    for kind in (int, float):
        try:
            parsed = [kind(value) for value in said]
        except ValueError:
            continue
        if kind is int and parsed and max(map(abs, parsed)) <= 2**31 and len(said) == len(values):
            low, high = np.min_scalar_type(min(parsed)), np.min_scalar_type(max(parsed))
            return np.array(parsed, np.promote_types(low, high))
        as_float = np.array([np.nan if v is None else float(v) for v in values])
        narrow = as_float.astype(np.float32)
        return narrow if np.array_equal(narrow, as_float, equal_nan=True) else as_float
    return np.array(values, object)


def relative(path: str, root: str) -> str:
    """The path below `root`, the same wherever the data lie."""
    return path[len(root) :].lstrip("/") if path.startswith(root) else Path(path).name
