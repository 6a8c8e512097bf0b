"""The durable log of a fit: what it has finished, so that a resume replays instead of reading.

A fit is ordinary Python between reads.  The log keeps the result of every finished read in the
order they were asked for; a resumed fit runs the same Python again and finished reads return at
once, to the same bits.  Of an unfinished read it keeps finished lanes or the last segment.

Folder layout: ``manifest.json`` names every file that counts, all others are leftovers.  Files are
written under new names and never changed; replacing the manifest is what commits.  So a kill at
any instant leaves the last commit whole, on a disk and on an object store.  One fit writes at a
time (`Checkpoint.locked`); a finished checkpoint no longer changes and is read without a lock.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np

from ...config import get_config
from ...data.files.archive import atomic_file, read_archive, write_archive
from ...data.files.regular import refuse_unless_file
from ...data.files.remote import as_os_errors, filesystem, is_url
from ...data.files.versions import all_changes
from ...errors import ArchiveError, CheckpointError
from ..processes import this_process
from .folder_lock import folder_lock
from .lease import lease
from .manifest import KeptCounters, Manifest

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Answer = TypeVar("Answer")

FORMAT = 1
VERSIONS = "versions"
"""Key of an identity under which the versions of the data's files are, name -> version."""
MANIFEST = "manifest.json"
_KINDS = ("read", "state", "node", "segment", "rows", "finished")
_NAME = rf"(?:{'|'.join(_KINDS)})-[0-9a-f]{{16}}\.(?:slm|bin)"
_OWN_NAME = re.compile(_NAME)
"""File names that `new_name` makes: no other is read, downloaded or removed."""
_HALF_WRITTEN = re.compile(rf"\.(?:{_NAME}|{re.escape(MANIFEST)})\.[0-9]+\.[0-9a-f]+\.tmp")
"""Names of files that `atomic_file` had not finished when the process was killed."""


class Checkpoint:
    """A checkpoint folder or URL; `manifest` is what counts, `commit` makes it durable.

    Manifest keys: ``format``, ``version``, ``identity``, ``plan``, ``log`` (entries of finished
    reads and loop states), ``partial`` (the unfinished read, or None), ``rows`` (row state: name ->
    generation), ``finished`` (file of the result, or None).  For those who watch (`read_status`):
    ``history``, ``counters``, ``writer`` (host and process), ``saved`` (when).
    """

    def __init__(self, place: str | os.PathLike[str], identity: Mapping[str, object]) -> None:
        self.is_url = is_url(os.fspath(place))
        # workers, whose working directory is another, write row state there
        self.place = os.fspath(place) if self.is_url else os.path.abspath(place)
        self.is_new = True
        self._check_lock: Callable[[], None] | None = None
        self.manifest = new_manifest(identity)
        self._look()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Write here, alone, in the block: refused if another fit does, which is then named."""
        with ExitStack() as stack:
            with self._reaching():
                if not self.is_url:
                    Path(self.place).mkdir(parents=True, exist_ok=True)
                lock = lease(self.place) if self.is_url else folder_lock(Path(self.place))
                self._check_lock = stack.enter_context(lock)
            self._look()  # another fit may have written before the lock was ours
            self._remove_leftovers()
            yield

    def _look(self) -> None:
        """Read the manifest if there is one; it must be of this fit."""
        stored = self._stored_manifest()
        if stored is not None:
            self._refuse_if_other(stored)
            self.manifest = stored
            self.is_new = False
        self._named = set(_files_in(self.manifest))

    def path(self, file: str | None) -> str:
        if file != MANIFEST and not is_own(file):
            raise CheckpointError(
                f"checkpoint {self.place} names a file {file!r}, which no fit writes: it was "
                "changed by others; do not trust it, remove it to start anew"
            )
        return f"{self.place.rstrip('/')}/{file}"

    def new_name(self, kind: str) -> str:
        """A file name never used before."""
        return f"{kind}-{secrets.token_hex(8)}.slm"

    def write(self, kind: str, tree: object) -> str:
        """Write a tree to a new file; it counts once the manifest names it."""
        file = self.new_name(kind)
        with self._reaching():
            write_archive(self.path(file), tree)
        return file

    def read(self, file: str | None) -> Any:
        """Read the tree of a file that the manifest names."""
        try:
            with self._reaching(may_be_absent=True):
                return read_archive(self.path(file))
        except (ArchiveError, FileNotFoundError) as error:
            raise CheckpointError(
                f"checkpoint {self.place} is damaged: {error}; remove it to start anew"
            ) from error

    def commit(self) -> None:
        """Make the manifest durable, then remove files it no longer names."""
        if self._check_lock is None:
            raise ValueError(f"checkpoint {self.place} is written without its lock; use locked()")
        with self._reaching():
            self._check_lock()
        self.manifest |= {"writer": this_process(), "saved": time.time()}
        text = json.dumps(self.manifest, indent=1).encode()
        if self.is_url:
            self._remote(lambda fs: fs.pipe_file(self.path(MANIFEST), text))  # one PUT
        else:
            with self._reaching(), atomic_file(self.path(MANIFEST)) as manifest:
                manifest.write(text)
        self.is_new = False
        named = set(_files_in(self.manifest))
        for file in self._named - named:
            self._remove(file)
        self._named = named

    def upload(self, path: str, file: str) -> None:
        """Copy a local file under the checkpoint (URLs only)."""
        self._remote(lambda fs: fs.put_file(path, self.path(file)))

    def download(self, file: str, path: str) -> None:
        self._remote(lambda fs: fs.get_file(self.path(file), path))

    def _remote(
        self, call: Callable[[AbstractFileSystem], Answer], *, may_be_absent: bool = False
    ) -> Answer:
        """The answer of the object store to a call of one of its methods."""
        with self._reaching(may_be_absent=may_be_absent):
            return call(filesystem(self.place)[0])

    @contextmanager
    def _reaching(self, *, may_be_absent: bool = False) -> Iterator[None]:
        """Errors of a disk or object store say that the checkpoint is as its last commit left it.

        A full disk, a folder without rights or removed in mid-fit, a file in the folder's place.
        """
        try:
            with as_os_errors():
                yield
        except OSError as error:
            if may_be_absent and isinstance(error, FileNotFoundError):
                raise
            again = "the store can be reached" if self.is_url else "its folder can be written"
            raise CheckpointError(
                f"checkpoint {self.place} cannot be used: {error}; it is as its last commit left "
                f"it, so run the same line again once {again}, or with another checkpoint"
            ) from error

    def _stored_manifest(self) -> Manifest | None:
        try:
            if self.is_url:
                text = self._remote(lambda fs: fs.cat_file(self.path(MANIFEST)), may_be_absent=True)
            else:
                with self._reaching(may_be_absent=True):
                    refuse_unless_file(self.path(MANIFEST), CheckpointError)
                    text = Path(self.path(MANIFEST)).read_bytes()
        except FileNotFoundError:
            return None
        try:
            manifest: Manifest = json.loads(text)
            check_manifest(manifest)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise CheckpointError(
                f"{self.path(MANIFEST)} is not a manifest ({error}); remove the checkpoint to "
                "start anew"
            ) from error
        return manifest

    def _refuse_if_other(self, stored: Manifest) -> None:
        """The checkpoint must be of this format and version, and of the same fit."""
        found = []
        own = {"format": self.manifest["format"], "version": self.manifest["version"]}
        for key, value in own.items():
            if stored.get(key) != value:
                found.append(f"{key} {stored.get(key)!r} then, {value!r} now")
        if not found:
            then, now = ({**of["identity"]} for of in (stored, self.manifest))
            old, new = then.pop(VERSIONS, None), now.pop(VERSIONS, {})
            found = list(differences(then, now))
            # older checkpoints do not say it
            if not found and isinstance(old, dict) and isinstance(new, dict):
                self._refuse_changed(old, new)
                stored["identity"] = self.manifest["identity"]
        if found:
            raise CheckpointError(
                f"checkpoint {self.place} belongs to another fit: {_listed(found)}; use another "
                "folder, or remove this one to start anew"
            )

    def _refuse_changed(self, then: Mapping[str, str], now: Mapping[str, str]) -> None:
        """The data's files must be those that the fit began with."""
        found = all_changes(then, now, trust_copies=get_config().trust_copies)
        if found:
            raise CheckpointError(
                f"the data have changed since checkpoint {self.place} was begun: "
                f"{_listed(found)}; go on with the files as they were, or remove the checkpoint to "
                "start anew. If these are copies of the same content, say so with "
                "config_context(trust_copies=True)"
            )

    def _remove_leftovers(self) -> None:
        """Remove our own files that the manifest does not name."""
        if not self.is_url:
            with self._reaching():
                present = os.listdir(self.place)
        elif self._remote(lambda fs: fs.exists(self.place)):
            self._remote(lambda fs: fs.invalidate_cache())
            paths = self._remote(lambda fs: fs.ls(self.place, False))
            present = [str(path).rpartition("/")[2] for path in paths]
        else:
            present = []
        for file in present:
            if is_own(file) and file not in self._named:
                self._remove(file)
            elif not self.is_url and _HALF_WRITTEN.fullmatch(file):
                Path(self.place, file).unlink(missing_ok=True)

    def _remove(self, file: str) -> None:
        if self.is_url:
            self._remote(lambda fs: fs.rm_file(self.path(file)))
        else:
            with self._reaching():
                Path(self.path(file)).unlink(missing_ok=True)


def is_own(file: object) -> bool:
    """Whether a name is one that `Checkpoint.new_name` makes."""
    return isinstance(file, str) and _OWN_NAME.fullmatch(file) is not None


def new_manifest(identity: Mapping[str, object]) -> Manifest:
    """The manifest of a fit that has read nothing yet."""
    return {
        "format": FORMAT,
        "version": package_version(),
        "identity": {key: plain(value) for key, value in identity.items()},
        "plan": None,
        "log": [],
        "partial": None,
        "rows": {},
        "finished": None,
        "history": [],
        "counters": None,
    }


def check_manifest(manifest: Manifest) -> None:
    """Raise ValueError, KeyError or TypeError unless a manifest has the form that a fit writes."""
    missing = new_manifest({}).keys() - manifest.keys()
    if missing:
        raise ValueError(f"it says nothing of {', '.join(sorted(missing))}")
    if not isinstance(manifest["identity"], dict) or not isinstance(manifest["history"], list):
        raise ValueError("identity or history of another type")
    if not isinstance(manifest["identity"].get(VERSIONS, {}), dict):
        raise ValueError("versions of files of another type")
    if not isinstance(manifest["counters"], dict | None):
        raise ValueError("counters of another type")
    for entry in manifest["log"]:
        if not isinstance(entry["kind"], str) or not isinstance(entry["name"], str):
            raise ValueError("an entry of the log without kind or name")
        _check_counters(entry["counters"])
    partial = manifest["partial"]
    if partial is not None:
        if not isinstance(partial["name"], str) or not all(type(n) is int for n in partial["cut"]):
            raise ValueError("an unfinished read without name or lanes")
        for node in partial.get("nodes", []):
            level, index = node["node"]
            if not (type(level) is int and type(index) is int and level >= 0 and index >= 0):
                raise ValueError("a lane without number")
    kept = [*manifest["rows"].values(), *({} if partial is None else partial["rows"]).values()]
    if not all(is_own(rows["file"]) for rows in kept):
        raise ValueError("a row state without file")
    for rows in manifest["rows"].values():
        dtype, width = rows.get("dtype"), rows.get("width")
        if not isinstance(dtype, str) or np.dtype(dtype).hasobject:
            raise ValueError("a row state without a type of numbers")
        if type(width) is not int or width < 1:
            raise ValueError("a row state without its numbers a row")
    for file in _files_in(manifest):
        if not is_own(file):
            raise ValueError(f"it names the file {file!r}, which no fit writes")


def _check_counters(counters: KeptCounters) -> None:
    names = KeptCounters.__annotations__.keys()
    if not counters.keys() <= names or not all(
        isinstance(value, int | float) for value in counters.values()
    ):
        raise ValueError("counters that are no numbers of reads, rows, bytes and seconds")


def package_version() -> str:
    try:
        return importlib.metadata.version("streamlearn")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def plain(value: object) -> object:
    """A JSON image of parameters and fingerprints, equal for equal values."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else repr(value)
    if hasattr(value, "__qualname__"):  # a function or a class
        return {"object": f"{value.__module__}.{value.__qualname__}"}
    kind = type(value)
    image: dict[str, object] = {"object": f"{kind.__module__}.{kind.__qualname__}"}
    if hasattr(value, "get_params"):
        image["parameters"] = plain(value.get_params())
    elif is_dataclass(value):  # a user's too, perhaps with slots
        image["fields"] = {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    return image


def differences(old: object, new: object, path: str = "") -> Iterator[str]:
    """Differences between two JSON images, one short sentence each."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            name = f"{path}.{key}" if path else key
            if key not in old:
                yield f"{name}: absent then, {_short(new[key])} now"
            elif key not in new:
                yield f"{name}: {_short(old[key])} then, absent now"
            else:
                yield from differences(old[key], new[key], name)
    elif _are_names(old) and _are_names(new) and {*old} != {*new}:
        yield from (f"{path}: {_short(name)} then, absent now" for name in old if name not in new)
        yield from (f"{path}: absent then, {_short(name)} now" for name in new if name not in old)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from differences(a, b, f"{path}[{i}]")
    elif old != new or type(old) is not type(new):
        yield f"{path}: {_short(old)} then, {_short(new)} now"


def _are_names(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _listed(found: list[str]) -> str:
    """The first few of what differs."""
    return "; ".join(found[:8]) + (f"; and {len(found) - 8} more" if found[8:] else "")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _files_in(node: object) -> Iterator[str]:
    """Every file the manifest names."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "file" and value is not None:
                yield value
            elif key != "identity":
                yield from _files_in(value)
    elif isinstance(node, list):
        for item in node:
            yield from _files_in(item)
