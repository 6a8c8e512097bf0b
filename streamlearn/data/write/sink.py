"""Rows written in parts by many tasks, and published whole or not at all.

Parts go to a hidden folder beside the target; `commit` puts them in order, marks them with
``_SUCCESS`` and renames the folder to the target's name.  A task that is run twice writes the same
part twice, each time under a name of its own that is then renamed.
"""

from __future__ import annotations

import io
import os
import posixpath
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SourceError
from ..files.remote import as_os_errors, is_local
from .place import WRITTEN_BY, place_of, refuse_foreign, refuse_place

if TYPE_CHECKING:
    import pyarrow as pa
    from fsspec import AbstractFileSystem
    from zarr.storage import FsspecStore

_CHUNK_BYTES = 8 << 20
"""Bytes of a zarr chunk at most, and half of them at least."""
ASSEMBLY_NBYTES = 4 * _CHUNK_BYTES
"""Bytes that `Sink.commit` holds of a zarr group: a chunk, zarr's copy, it encoded, a part."""
WRITER_BYTES = 4 << 20
"""Bytes of a writer, however few rows it is given."""
FORMATS = ("parquet", "zarr")
_NOT_WRITTEN = (
    *(".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".feather", ".arrow", ".ipc", ".orc"),
    *(".avro", ".xls", ".xlsx", ".h5", ".hdf5", ".npy", ".npz", ".pkl", ".db", ".gz", ".zip"),
)
"""Suffixes that promise a file of another format."""
_LAST = ("/_SUCCESS", "/zarr.json")
"""Files, relative to a folder of parts, whose presence says that all parts are written."""


def open_sink(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[tuple[str, str]],
    format: str,
    reads: Sequence[str],
    overwrite: bool = False,
    attributes: Mapping[str, object] | None = None,
) -> Sink:
    """Begin a folder of parts; the target does not exist, or stays as it is, until `commit`.

    Used as a context: parts are removed if it ends by an error.

    Parameters
    ----------
    path : path or URL
    columns : sequence of (name, dtype)
        Numpy dtype names; strings and objects become strings (parquet only).
    format : {"parquet", "zarr"}
        A folder of parquet files, or a zarr v3 group of one array a column.
    reads : sequence of str
        `Store.locations` of what is read meanwhile: a target that is, holds or lies in one of them
        is refused.
    overwrite : bool
        Replace an earlier output at `commit`; whatever else lies at the target is refused.
    attributes : dict, optional
        JSON values kept with the arrays (zarr only).
    """
    if format not in FORMATS:
        raise ValueError(f"format={format!r}; the formats are {', '.join(FORMATS)}")
    kinds = tuple((name, _kind(dtype)) for name, dtype in columns)
    names = [name for name, _ in kinds]
    if len(set(names)) < len(names):
        raise SourceError(f"columns named twice cannot be written: {names}; rename them")
    words = [name for name, kind in kinds if kind == "string"]
    if format == "zarr" and words:
        raise SourceError(
            f"zarr arrays hold numbers, but {', '.join(map(repr, words))} are strings; "
            "write parquet, or encode them first"
        )
    said = os.fspath(path)
    suffix = posixpath.splitext(said.rstrip("/"))[1].lower()
    if suffix in _NOT_WRITTEN:
        raise ValueError(
            f"{said}: rows are written as a folder of parquet files, or as a zarr group, not as "
            f"{suffix}; choose a name without it, or with .parquet or .zarr"
        )
    fs, target = place_of(said)
    refuse_place(said, reads)
    folder, name = posixpath.split(target)
    staging = posixpath.join(folder, f".{name}.writing-{uuid.uuid4().hex[:12]}")
    try:
        with as_os_errors():
            if fs.exists(target):
                refuse_foreign(fs, target, said)
                if not overwrite:
                    raise FileExistsError(
                        f"{said} exists already; pass overwrite=True, or another path"
                    )
            fs.makedirs(staging)
    except FileExistsError:
        raise
    except OSError as error:
        raise OSError(
            error.errno, f"cannot write {said}: {error}; choose a folder you may write to"
        ) from error
    return Sink(fs, target, staging, kinds, format, overwrite, dict(attributes or {}))


@dataclass(frozen=True)
class Sink:
    """The place to which tasks write their parts.  Picklable; made by `open_sink`."""

    fs: AbstractFileSystem
    target: str
    staging: str
    columns: tuple[tuple[str, str], ...]
    format: str
    overwrite: bool
    attributes: dict[str, object]

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        try:
            self.abort()
        except (OSError, ValueError) as failed:
            error.add_note(f"{self.staging} could not be removed: {failed}; remove it yourself")

    def write(self, lane_index: int, part_index: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write one part whole; parts are rows in the order of (lane_index, part_index)."""
        wrong = {name for name, _ in self.columns} ^ set(arrays)
        if wrong:
            raise ValueError(f"columns {sorted(wrong)} are not those the sink was opened with")
        n_rows = {len(array) for array in arrays.values()}
        if len(n_rows) > 1:
            raise ValueError(f"columns of {sorted(n_rows)} rows in one part")
        part = f"part-{lane_index:010d}-{part_index:06d}"
        if self.format == "parquet":
            self._put(f"{part}.parquet", _parquet_bytes(self.columns, arrays))
            return
        for i, (name, kind) in enumerate(self.columns):
            content = io.BytesIO()
            np.save(content, np.ascontiguousarray(arrays[name], np.dtype(kind)), allow_pickle=False)
            self._put(f"{part}.{i}.npy", content.getbuffer())

    def _put(self, name: str, content: bytes | memoryview | pa.Buffer) -> None:
        path = posixpath.join(self.staging, name)
        if self._local:
            draft = f"{path}.{uuid.uuid4().hex[:12]}"
            with open(draft, "wb") as file:
                file.write(content)
            os.replace(draft, path)
            return
        with self._reaching():
            self.fs.pipe_file(path, bytes(content))  # one PUT: there whole or not at all

    @property
    def _local(self) -> bool:
        return is_local(self.fs)

    def _parts(self, suffix: str) -> list[str]:
        found = self.fs.ls(self.staging, detail=False)
        parts = [p for p in found if posixpath.basename(p).startswith("part-")]
        return sorted(p for p in parts if p.endswith(suffix))

    def commit(self, n_rows: int) -> None:
        """Check that all rows arrived, mark the folder as complete and give it its name.

        An object store has no rename: there the parts are copied, and what says that they are all
        there (``_SUCCESS``, the group's ``zarr.json``) comes last.
        """
        with self._reaching():
            self.fs.invalidate_cache()  # workers wrote what this process's listings do not know
            self._publish(self._whole(n_rows))

    def _whole(self, n_rows: int) -> str:
        """The staged folder, all its rows there, its mark set."""
        ready = self.staging
        if self.format == "parquet":
            have = sum(self._rows_of(part) for part in self._parts(".parquet"))
            self._refuse_missing(have, n_rows)
            if not have:
                self.write(0, 0, {name: np.empty(0, _empty(kind)) for name, kind in self.columns})
        else:
            ready = posixpath.join(self.staging, "group")
            self._assemble(ready, n_rows)
        if self.format == "parquet":
            self.fs.pipe_file(posixpath.join(ready, "_SUCCESS"), b"")
        return ready

    def abort(self) -> None:
        """Remove the parts written; the target is as it was before."""
        with self._reaching():
            self.fs.invalidate_cache()
            self._remove(self.staging)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Errors of an object store name the target."""
        try:
            with as_os_errors():
                yield
        except OSError as error:
            if self._local or isinstance(error, FileExistsError):
                raise
            raise OSError(
                f"cannot write {self.target}: {error}; nothing is published, run it again"
            ) from error

    def _rows_of(self, part: str) -> int:
        import pyarrow.parquet as pq

        with self.fs.open(part, "rb") as file:
            return int(pq.read_metadata(file).num_rows)

    def _refuse_missing(self, have: int, n_rows: int) -> None:
        if have != n_rows:
            raise SourceError(
                f"{self.target}: {have:,} rows were written, expected {n_rows:,}; "
                "nothing is published, run it again"
            )

    def _publish(self, ready: str) -> None:
        old = None
        if self.fs.exists(self.target):
            if not self.overwrite:
                raise FileExistsError(
                    f"{self.target} was made while it was being written; what was to be written "
                    "is discarded by abort(), pass overwrite=True or another path"
                )
            refuse_foreign(self.fs, self.target, self.target)  # perhaps put there meanwhile
            old = self.staging + "-old"
            self._move(self.target, old)
        try:
            self._move(ready, self.target)
        except BaseException:
            if old is not None:
                self._remove(self.target)
                self._move(old, self.target)
            raise
        for rest in (old, self.staging):
            try:
                if rest is not None:
                    self._remove(rest)
            except (OSError, ValueError) as error:
                what = "what it replaced" if rest == old else "the files it was made of"
                raise OSError(
                    f"{self.target} is written, but {what} could not be removed and lies in "
                    f"{rest}: {error}; remove that folder yourself"
                ) from error

    def _remove(self, folder: str) -> None:
        if self.fs.exists(folder):
            self.fs.rm(folder, recursive=True)

    def _move(self, a: str, b: str) -> None:
        if self._local:
            os.rename(a, b)
            return
        files = self.fs.find(a)
        for path in sorted(files, key=lambda path: (path[len(a) :] in _LAST, path)):
            self.fs.cp_file(path, b + path[len(a) :])
        self.fs.rm(a, recursive=True)

    def _assemble(self, ready: str, n_rows: int) -> None:
        """Parts of any length into zarr arrays, a whole chunk at a time."""
        import zarr

        if self._local:
            store: str | FsspecStore = ready
        else:
            from zarr.storage import FsspecStore

            store = FsspecStore(_asynchronous(self.fs), path=ready)
        group = zarr.open_group(store, mode="w", zarr_format=3)
        group.attrs.update({**self.attributes, **WRITTEN_BY})
        row_bytes = 0
        for i in range(len(self.columns)):
            shape, dtype = self._shape_of(i)
            row_bytes = max(row_bytes, int(np.prod(shape[1:])) * dtype.itemsize)
        # One number of rows for all arrays: a reader takes the same rows of each.
        rows = 1 << max((_CHUNK_BYTES // max(row_bytes, 1)).bit_length() - 1, 0)
        rows = max(min(rows, n_rows), 1)
        for i, (name, kind) in enumerate(self.columns):
            shape, _ = self._shape_of(i)
            self._refuse_missing(shape[0], n_rows)
            array = group.create_array(
                name, shape=shape, chunks=(rows, *shape[1:]), dtype=np.dtype(kind)
            )
            at = 0
            for block in _blocks(self._load(i), rows):
                array[at : at + len(block)] = block
                at += len(block)

    def _load(self, i: int) -> Iterator[np.ndarray]:
        for part in self._parts(f".{i}.npy"):
            shape, dtype, start = self._header(part)
            yield np.frombuffer(self.fs.cat_file(part), dtype, offset=start).reshape(shape)

    def _shape_of(self, i: int) -> tuple[tuple[int, ...], np.dtype]:
        """Rows of all parts and the other axes, from the headers of the parts."""
        rows = 0
        rest: tuple[int, ...] = ()
        for part in self._parts(f".{i}.npy"):
            shape, _, _ = self._header(part)
            rows, rest = rows + shape[0], shape[1:]
        return (rows, *rest), np.dtype(self.columns[i][1])

    def _header(self, part: str) -> tuple[tuple[int, ...], np.dtype, int]:
        """Shape and dtype of a part of a zarr group, and where its values begin."""
        with self.fs.open(part, "rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            return shape, dtype, int(file.tell())


def _kind(dtype: str) -> str:
    if dtype in ("string", "dictionary"):
        return "string"
    kind = np.dtype(dtype)
    return "string" if kind.kind in "OUST" else kind.name


def _empty(kind: str) -> np.dtype:
    return np.dtype(object if kind == "string" else kind)


def _blocks(parts: Iterator[np.ndarray], rows: int) -> Iterator[np.ndarray]:
    """The same rows in blocks of `rows`, the last one shorter."""
    block, filled = None, 0
    for part in parts:
        at = 0
        while at < len(part):
            if block is None:
                block, filled = np.empty((rows, *part.shape[1:]), part.dtype), 0
            n = min(rows - filled, len(part) - at)
            block[filled : filled + n] = part[at : at + n]
            at, filled = at + n, filled + n
            if filled == rows:
                yield block
                block = None
    if block is not None:
        yield block[:filled]


def _parquet_bytes(
    columns: Sequence[tuple[str, str]], arrays: Mapping[str, np.ndarray]
) -> pa.Buffer:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ..parquet.arrays import arrow_array

    content = pa.BufferOutputStream()
    fields = [arrow_array(arrays[name], kind) for name, kind in columns]
    table = pa.Table.from_arrays(fields, [name for name, _ in columns])
    # Arrow takes 50 MiB more to find out that 2 MiB of float64 make no dictionary.
    coded = [name for name, kind in columns if not kind.startswith("float")]
    pq.write_table(table, content, row_group_size=max(len(table), 1), use_dictionary=coded)
    return content.getvalue()


def _asynchronous(fs: AbstractFileSystem) -> AbstractFileSystem:
    """The file system as zarr's store wants it."""
    if fs.async_impl:
        return type(fs)(**{**fs.storage_options, "asynchronous": True})
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    return AsyncFileSystemWrapper(fs, asynchronous=True)
