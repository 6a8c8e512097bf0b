"""The stored chunks of a zarr array: which are there, how large they are, and their versions.

Of a sharded array the shards.  A store of a million chunks has no room for a version of each, so
they are summed up in runs of rows of chunks; a reader compares the runs that it has read.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from zipfile import ZipFile

import numpy as np
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, ZipStore

from ...config import get_config
from ...errors import SourceError
from ..files.remote import CHECK_KEYS, as_os_errors
from ..files.versions import (
    ATTEMPTS,
    FIRST_WAIT_S,
    REST_WAIT_S,
    Digest,
    being_written,
    changed,
    changes,
    info_version,
    local_version,
    stat_version,
    unrested_s,
)

if TYPE_CHECKING:
    import zarr
    from zarr.abc.store import Store

RUNS = 256
"""Runs of rows of chunks whose versions are summed up, at most: 10 kB an array."""
AT_ONCE = 128
"""Objects of a URL that are asked for at once."""
_ABSENT = "absent"


class Chunks:
    """The chunks of one array, as they were when it was opened.  Picklable."""

    def __init__(self, array: zarr.Array, place: str) -> None:
        self._array = array
        self.place = f"{place}, array {'/' + array.path if array.path else 'X'}"
        shape = array.shards or array.chunks
        self._grid = [-(-n // size) for n, size in zip(array.shape, shape, strict=True)]
        self._rows, self._step = int(shape[0]), -(-self._grid[0] // RUNS) or 1
        self._trust_copies = get_config().trust_copies
        self.n_missing = self.nbytes = 0
        self.first_missing = ""
        self.ends_early = False
        """Whether all chunks of the last rows are missing."""
        self._known = [self._rested(run) for run in range(-(-self._grid[0] // self._step))]
        if isinstance(array.store, ZipStore):
            self.nbytes = _nbytes_in_zip(str(array.store.path), array.path)
        elif not isinstance(array.store, LocalStore | FsspecStore):
            self.nbytes = int(array.nbytes_stored())

    @property
    def n_chunks(self) -> int:
        return int(np.prod(self._grid))

    def _rested(self, run: int) -> str:
        """The version of a run once its files have rested; counts what is missing."""
        patience = time.monotonic() + REST_WAIT_S
        while True:
            digest, wait = Digest(), 0.0
            missing, nbytes = list[str](), 0
            for key, version, size, unrested in self._look(run):
                digest.add(version)
                wait, nbytes = max(wait, unrested), nbytes + size
                if version == _ABSENT:
                    missing.append(key)
            if not wait:
                break
            if time.monotonic() > patience:
                raise being_written(self._place_of(run))
            time.sleep(wait)
        self.n_missing, self.nbytes = self.n_missing + len(missing), self.nbytes + nbytes
        self.first_missing = self.first_missing or (missing[0] if missing else "")
        last = int(np.prod(self._grid[1:]))  # in one row of chunks; of the last run, the last row
        self.ends_early = len(missing) >= last > 0 and set(missing) >= {*self._keys(run)[-last:]}
        return digest.version()

    def _keys(self, run: int) -> list[str]:
        rows = range(run * self._step, min((run + 1) * self._step, self._grid[0]))
        places = ((i, *rest) for i in rows for rest in np.ndindex(*self._grid[1:]))
        prefix = f"{self._array.path}/" if self._array.path else ""
        encode = self._array.metadata.encode_chunk_key
        return [prefix + encode(place) for place in places]

    def _look(self, run: int) -> Iterator[tuple[str, str, int, float]]:
        """(key, version, bytes, seconds until it has rested) of each chunk of a run, as it is."""
        store, keys = self._array.store, self._keys(run)
        if isinstance(store, LocalStore):
            for key in keys:
                try:
                    facts = os.stat(f"{store.root}/{key}")
                except (FileNotFoundError, NotADirectoryError):
                    yield key, _ABSENT, 0, 0.0
                else:
                    yield key, stat_version(facts), facts.st_size, unrested_s(facts)
            return
        whole = local_version(str(store.path)) if isinstance(store, ZipStore) else "present"
        for a in range(0, len(keys), AT_ONCE):
            some = keys[a : a + AT_ONCE]
            with as_os_errors():
                found = sync(_ask(store, some))
            for key, info in zip(some, found, strict=True):
                if info is None:
                    yield key, _ABSENT, 0, 0.0
                elif isinstance(store, FsspecStore):
                    yield key, info_version(info), int(str(info.get("size") or 0)), 0.0
                else:
                    yield key, whole, 0, 0.0

    def runs_of(self, start: int, stop: int) -> range:
        """The runs in which rows [start, stop) lie."""
        step = self._rows * self._step
        return range(start // step, -(-stop // step))

    def check(self, runs: set[int]) -> None:
        """Raise SourceError if a chunk of these runs is not what it was when it was listed."""
        for run in sorted(runs):
            what = changes(self._known[run], self._now(run), trust_copies=self._trust_copies)
            if what:
                raise changed(self._place_of(run), what)

    def _now(self, run: int) -> str:
        """The version of a run as it is; a line that fails is tried again."""
        for attempt in range(1, ATTEMPTS + 1):
            digest = Digest()
            try:
                for _, version, _, _ in self._look(run):
                    digest.add(version)
                return digest.version()
            except OSError as error:
                if attempt == ATTEMPTS:
                    raise SourceError(
                        f"cannot tell whether {self._place_of(run)} has changed: {error}; "
                        f"{CHECK_KEYS}"
                    ) from None
                time.sleep(FIRST_WAIT_S * 4 ** (attempt - 1))
        raise AssertionError("unreachable")

    def _place_of(self, run: int) -> str:
        last = min((run + 1) * self._step, self._grid[0]) - 1
        return f"{self.place}, chunk rows {run * self._step} to {last}"

    def versions(self) -> dict[str, str]:
        """Versions of the runs, by name, for a checkpoint."""
        path = self._array.path or "X"
        return {
            f"{path}, chunk rows from {i * self._step}": text for i, text in enumerate(self._known)
        }

    def is_being_written(self) -> bool:
        """Whether a writer has not come to the end.

        The last rows of chunks are missing, so that a writer that goes row by row was stopped; or a
        chunk is missing while a file that zarr had half written lies there.
        """
        store = self._array.store
        if not self.n_missing or self.ends_early or not isinstance(store, LocalStore):
            return self.ends_early
        folder = store.root / self._array.path
        return any(name.endswith(".partial") for _, _, files in os.walk(folder) for name in files)

    def refuse_missing(self, why: str) -> None:
        """Raise SourceError for the chunks that are missing."""
        raise SourceError(
            f"{self.place} lacks {self.n_missing:,} of {self.n_chunks:,} chunks, the first is "
            f"{self.first_missing}{why}: wait until it is written, or write it again; "
            f'missing_chunks="fill" reads them as the fill value {self._array.fill_value}'
        )


def _nbytes_in_zip(path: str, array: str) -> int:
    """Bytes of an array's chunks, from the list at the end of the file; zarr would read them."""
    prefix = f"{array}/" if array else ""
    with ZipFile(path) as file:
        sizes = {entry.filename: entry.file_size for entry in file.infolist()}
    return sum(size for name, size in sizes.items() if name.startswith(prefix))


async def _ask(store: Store, keys: list[str]) -> list[dict[str, object] | None]:
    """Ask a store for its facts of each object; None for those that are not there."""
    if isinstance(store, FsspecStore):
        store.fs.invalidate_cache()
        return list(await asyncio.gather(*(_info(store, key) for key in keys)))
    there = await asyncio.gather(*(store.exists(key) for key in keys))
    return [{} if is_there else None for is_there in there]


async def _info(store: FsspecStore, key: str) -> dict[str, object] | None:
    path = f"{store.path}/{key}" if store.path else key
    try:
        found: dict[str, object] = await store.fs._info(path)
    except FileNotFoundError:
        return None
    return found
