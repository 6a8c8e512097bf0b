"""The version of a file, by which it is known to be unchanged without being read.

The version of a local file is its size, its two times of change and its inode; that of a URL is its
size and what the store says of its content (ETag, version, time of change).  A store of files takes
the versions when it is opened, and readers compare them when they open a file and once they have
read the last byte of it.  Versions do not come back: whoever writes moves ``ctime`` on, whatever
time of change they set.  So if the version is the same after the last byte, every byte was of the
content that the store was opened with.  Two things are seen to:

- A file that is written twice within one tick of the clock looks the same after both.  So a version
  counts only once the file has rested for longer than a tick; until then `rested_version` waits.
- A new owner, new rights or another hard link move ``ctime`` too.  If they are what changed, and
  size, time of change and inode are as before, then the file counts as unchanged: nobody's fit is
  to end because a backup links its files.  Who changes rights, and content, and sets the old time
  of change, is not noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...config import get_config
from ...errors import SourceError
from .remote import CHECK_KEYS, as_os_errors

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

TICK_S = 0.01
"""Longest tick of a system's clock for files (Linux: 1 to 10 ms)."""
COARSE_TICK_S = 2.0
"""The same where times are whole seconds, or every second one (FAT)."""
REST_WAIT_S = 10.0
"""Seconds that a file which is being written is waited for."""
ATTEMPTS, FIRST_WAIT_S = 3, 0.2
"""Times an object store is asked for a version, and seconds of the first wait in between."""
LISTED = 256
"""Files that are named one by one in what a checkpoint keeps, at most; else runs of them."""

_RIGHTS, _CTIME, _SUMMED = "rights", "ctime", "names, sizes and times"
_LOCAL = ("size", "modified", "inode", _CTIME, _RIGHTS)
_MANY = (_SUMMED, _CTIME, _RIGHTS)
"""Names of the parts of a version: of one local file, and of many."""
_MARKS = (
    *("ETag", "etag", "Content-MD5", "content_md5", "md5Hash", "checksum", "VersionId"),
    *("version_id", "generation", "LastModified", "Last-Modified", "last_modified", "updated"),
    *("mtime", "modify", "modificationTime", "ino"),
)
"""Names by which file systems of fsspec give the marks of a file's content."""


def local_version(file: int | str) -> str:
    """The version of a local file, given by path or open handle."""
    return stat_version(os.stat(file))


def rested_version(file: int | str, name: str) -> str:
    """The same once the file has rested for a tick of the clock; refused if it never does."""
    patience = time.monotonic() + REST_WAIT_S
    while wait := unrested_s(facts := os.stat(file)):
        if time.monotonic() > patience:
            raise being_written(name)
        time.sleep(wait)
    return stat_version(facts)


def unrested_s(facts: os.stat_result) -> float:
    """Seconds until the next write would get another time than the last one; 0 if it does now."""
    whole = facts.st_ctime_ns % 10**9 == 0 == facts.st_mtime_ns % 10**9
    tick = COARSE_TICK_S if whole else TICK_S
    age = time.time() - facts.st_ctime_ns / 1e9
    # A clock that was set back: until it is there again no write gets that time.
    return tick - age if -tick < age < tick else 0.0


def being_written(name: str) -> SourceError:
    """The error for files that do not rest."""
    return SourceError(
        f"{name} is being written: it changed again and again for {REST_WAIT_S:g} seconds; wait "
        "until it is complete, or copy it to where nobody writes"
    )


def stat_version(facts: os.stat_result) -> str:
    """The version of a local file, from what the system says of it."""
    rights = f"{facts.st_mode:o}.{facts.st_uid}.{facts.st_gid}.{facts.st_nlink}"
    times = facts.st_size, facts.st_mtime_ns, facts.st_ino, facts.st_ctime_ns
    return ":".join([*map(str, times), rights])


def info_version(info: Mapping[str, object]) -> str:
    """The version of a file of fsspec, from its file system's information."""
    marks = {key: str(info[key]) for key in _MARKS if info.get(key) is not None}
    if not marks and info.get("created") is not None:  # of a local file that would be ctime
        marks["created"] = str(info["created"])
    return json.dumps({"size": info.get("size"), **marks})


def url_version(fs: AbstractFileSystem, path: str, name: str) -> str:
    """The version of a file of fsspec as it is now, whatever listings say."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with as_os_errors():
                fs.invalidate_cache(path)
                return info_version(fs.info(path))
        except FileNotFoundError:
            raise gone(name) from None
        except OSError as error:
            if attempt == ATTEMPTS:
                raise SourceError(
                    f"cannot tell whether {name} has changed: {error}; {CHECK_KEYS}"
                ) from None
            time.sleep(FIRST_WAIT_S * 4 ** (attempt - 1))
    raise AssertionError("unreachable")


def gone(name: str) -> SourceError:
    """The error for a file that is no longer there."""
    return SourceError(
        f"{name} was removed or renamed while it was being read; put it back and start again"
    )


def changes(then: str, now: str, *, trust_copies: bool = False) -> str:
    """Difference between two versions, in words; empty if the content is as it was."""
    if then == now:
        return ""
    old, new = _fields(then), _fields(now)
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if trust_copies:
        keys = [key for key in keys if key == "size"]
    elif _RIGHTS in keys:
        keys = [key for key in keys if key not in (_RIGHTS, _CTIME)]
    return ", ".join(f"{key} {_said(old, key)} then, {_said(new, key)} now" for key in keys)


def _fields(version: str) -> dict[str, object]:
    for names, mark in ((_LOCAL, ":"), (_MANY, ";")):
        parts = version.split(mark)
        if len(parts) == len(names):
            return dict(zip(names, parts, strict=True))
    try:
        fields = json.loads(version)
    except (ValueError, RecursionError):
        fields = None
    return fields if isinstance(fields, dict) else {"version": version}


def _said(fields: Mapping[str, object], key: str) -> str:
    value = str(fields.get(key, "unknown"))
    if key in ("modified", _CTIME) and value.isdigit() and len(value) < 20:
        return datetime.fromtimestamp(int(value) / 1e9, UTC).isoformat(" ", "microseconds")[:26]
    return value[:80]


def changed(name: str, found: str) -> SourceError:
    """The error for a file that is not in the version that its store was opened with."""
    return SourceError(
        f"{name} has changed since its table was opened: {found}; no model is made of a mixture. "
        "Leave the files alone while they are read, and start again"
    )


class Versions:
    """The versions of a store's files, as they were when it was opened.  Picklable."""

    def __init__(self, fs: AbstractFileSystem, paths: Sequence[str], names: Sequence[str]) -> None:
        """`fs` is None for local files; `names` are for messages."""
        self.fs, self.paths, self.names = fs, paths, names
        self.known = [""] * len(paths)
        self.trust_copies = get_config().trust_copies

    def __getstate__(self) -> dict[str, object]:
        """Versions are much alike: compressed, they add little to what travels with each read."""
        return {**vars(self), "known": zlib.compress("\n".join(self.known).encode(), 1)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        known = zlib.decompress(state["known"]).decode()
        self.known = known.split("\n") if self.paths else []

    def note(self, file: int, handle: int) -> None:
        """Note the version of an open local file, or compare it with the one noted before."""
        if self.known[file]:
            self.compare(file, local_version(handle))
        else:
            self.known[file] = rested_version(handle, self.names[file])

    def note_all(self) -> None:
        """Note the versions of all files, which are local."""
        self.known = [
            rested_version(path, name) for path, name in zip(self.paths, self.names, strict=True)
        ]

    def compare(self, file: int, now: str) -> None:
        """Raise SourceError if a file's version has changed; the first time, note the version."""
        then = self.known[file]
        if not then:
            self.known[file] = now
            return
        found = changes(then, now, trust_copies=self.trust_copies)
        if found:
            raise changed(self.names[file], found)

    def check(self, file: int) -> None:
        """Look at a file again: raise SourceError if its version has changed."""
        path, name = self.paths[file], self.names[file]
        if self.fs is not None:
            self.compare(file, url_version(self.fs, path, name))
            return
        try:
            now = local_version(path)
        except FileNotFoundError:
            raise gone(name) from None
        self.compare(file, now)

    def check_all(self) -> None:
        for file in range(len(self.paths)):
            self.check(file)

    def listed(self) -> dict[str, str]:
        """The versions by the files' names, for a checkpoint."""
        return listed(self.names, self.known)


class Digest:
    """The version of many files in a few bytes: what they are, added one after the other."""

    def __init__(self) -> None:
        self._hashes = [hashlib.blake2b(digest_size=size) for size in (8, 4, 4)]

    def add(self, version: str) -> None:
        parts = version.split(":")
        is_local = len(parts) == len(_LOCAL)
        sums = (":".join(parts[:3]), *parts[3:]) if is_local else (version,)
        for hash, text in zip(self._hashes, sums, strict=False):
            hash.update(f"{text}\n".encode())

    def version(self) -> str:
        return ";".join(hash.hexdigest() for hash in self._hashes)


def listed(names: Sequence[str], versions: Sequence[str]) -> dict[str, str]:
    """Versions by name, or of many files those of runs of them: short enough to be kept."""
    if len(names) <= LISTED:
        return dict(zip(names, versions, strict=True))
    step = -(-len(names) // LISTED)
    runs = {}
    for a in range(0, len(names), step):
        b = min(a + step, len(names))
        digest = Digest()
        for version in versions[a:b]:
            digest.add(version)
        runs[f"{names[a]} to {names[b - 1]} ({b - a} files)"] = digest.version()
    return runs


def all_changes(
    then: Mapping[str, object], now: Mapping[str, object], *, trust_copies: bool
) -> list[str]:
    """Differences between two results of `listed`, a short sentence for each file."""
    found = []
    for name in {**then, **now}:
        old, new = str(then.get(name, "")), str(now.get(name, ""))
        what = changes(old, new, trust_copies=trust_copies)
        if what:
            found.append(f"{name}: {what}")
    return found
