"""A plain tree of values and arrays in one file, without pickle.

The tree may hold dict, list, tuple, str, int, float, bool, None, numpy arrays and scalars, losses
and bases (their class's name and numbers), and the NamedTuples and dataclasses of `records`, under
the names given there.  Layout: one line of magic
with the format version, the header's length and checksum (16 bytes), a JSON header, then the
arrays' raw bytes, each at a multiple of 64.  What is read back has the same types and bits.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...errors import ArchiveError
from ...numeric.parametric import Parametric, class_name, parametric_of
from .record_types import check_types, with_floats
from .records import record_class, record_name
from .regular import refuse_unless_file
from .remote import CHECK_KEYS, as_os_errors, filesystem, is_url

_MAGIC = b"streamlearn archive 1\n"
_PREFIX = struct.Struct("<QQ")
_ALIGN = 64
MALFORMED = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, SyntaxError),
    *(RecursionError, MemoryError),
)
"""Errors of Python and numpy from a file whose checksums are right, but which we never wrote."""
_PACKAGE = __name__.partition(".")[0]

Target = str | os.PathLike[str] | BinaryIO


def write_archive(target: Target, tree: object) -> int:
    """Write `tree` to a path, an fsspec URL or an open binary file; returns the bytes written.

    A path is written under a new name, synced and renamed: it is whole or not there.
    """
    arrays: list[np.ndarray] = []
    places: list[dict[str, int]] = []
    root = _encode(tree, arrays, "tree")
    at = 0
    for array in arrays:
        raw = _bytes_of(array)
        places.append({"at": at, "nbytes": raw.nbytes, "crc": zlib.crc32(raw)})
        at += -(-raw.nbytes // _ALIGN) * _ALIGN
    header = json.dumps({"tree": root, "arrays": places}).encode()
    start = len(_MAGIC) + _PREFIX.size + len(header)
    padding = -start % _ALIGN
    with _opened_to_write(target) as file:
        file.write(_MAGIC + _PREFIX.pack(len(header), zlib.crc32(header)) + header)
        file.write(bytes(padding))
        for array in arrays:
            raw = _bytes_of(array)
            file.write(raw)
            file.write(bytes(-raw.nbytes % _ALIGN))
    return start + padding + at


Node = dict[str, Any]
"""An object of the JSON of an archive; what it should not hold raises one of `MALFORMED`."""


def read_archive(source: Target) -> Any:
    """The tree that `write_archive` wrote; `ArchiveError` if it is damaged or of another format."""
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if is_url(name):
            fs, path = filesystem(name)
            with _naming(name, "read"), as_os_errors(), fs.open(path, "rb") as file:
                return _read(file, name)
        refuse_unless_file(name, ArchiveError)
        with open(name, "rb") as file:
            return _read(file, name)
    return _read(source, getattr(source, "name", "archive"))


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path`, synced, if the block ends well; else vanishes."""
    final = Path(path)
    new = final.with_name(f".{final.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(new, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, final)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(final.parent)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _opened_to_write(target: Target) -> Iterator[BinaryIO]:
    if not isinstance(target, str | os.PathLike):
        yield target
    elif is_url(os.fspath(target)):
        fs, path = filesystem(os.fspath(target))
        with _naming(os.fspath(target), "write"), as_os_errors():
            file = fs.open(path, "wb", autocommit=False)
            try:
                yield file
                file.close()
                file.commit()  # only now there is an object of that name
            except BaseException:
                file.discard()
                raise
    else:
        with atomic_file(target) as file:
            yield file


@contextmanager
def _naming(url: str, verb: str) -> Iterator[None]:
    """An object store's errors say which object, and keep their type (not found, no permission)."""
    try:
        yield
    except OSError as error:
        kind = next(
            (k for k in (FileNotFoundError, PermissionError) if isinstance(error, k)), OSError
        )
        raise kind(f"cannot {verb} {url}: {error}; {CHECK_KEYS}") from error


def _read(file: BinaryIO, name: str) -> Any:
    magic = file.read(len(_MAGIC))
    if magic != _MAGIC:
        kind = magic.decode("ascii", "replace").strip()
        raise ArchiveError(
            f"{name}: not a file this version of {_PACKAGE} can read: it begins with {kind!r}, "
            f"expected {_MAGIC.decode().strip()!r}"
        )
    prefix = file.read(_PREFIX.size)
    n_header, crc = _PREFIX.unpack(prefix) if len(prefix) == _PREFIX.size else (0, -1)
    header = file.read(n_header) if n_header <= _bytes_left(file) else b""
    if zlib.crc32(header) != crc:
        raise ArchiveError(f"{name}: the header is cut short or damaged")
    try:
        return _read_content(file, json.loads(header), n_header, name)
    except ArchiveError:
        raise
    except MALFORMED as error:
        raise ArchiveError(
            f"{name}: it holds what {_PACKAGE} never writes ({type(error).__name__}: {error}); do "
            "not trust it: train again, or take the file from where it was written"
        ) from error


def _read_content(file: BinaryIO, content: Node, n_header: int, name: str) -> Any:
    start = len(_MAGIC) + _PREFIX.size + n_header
    file.read(-start % _ALIGN)
    arrays = []
    for number, place in enumerate(content["arrays"]):
        if not 0 <= place["nbytes"] <= _bytes_left(file):
            raise ArchiveError(
                f"{name}: array {number} of {len(content['arrays'])} is cut short or damaged (it "
                f"should have {place['nbytes']} bytes, {_bytes_left(file)} are left)"
            )
        raw = np.empty(place["nbytes"], dtype=np.uint8)
        view = _bytes_of(raw)
        got = _read_into(file, view)
        if got != raw.nbytes or zlib.crc32(view) != place["crc"]:
            raise ArchiveError(
                f"{name}: array {number} of {len(content['arrays'])} is cut short or damaged "
                f"({got} of {raw.nbytes} bytes)"
            )
        file.read(-raw.nbytes % _ALIGN)
        arrays.append(raw)
    return _decode(content["tree"], arrays, name)


def _bytes_left(file: BinaryIO) -> int:
    """Bytes from here to the end, so that nothing larger is ever allocated."""
    at = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(at)
    return end - at


def _read_into(file: BinaryIO, view: memoryview) -> int:
    got = 0
    while got < len(view):
        n = file.readinto(view[got:])  # type: ignore[attr-defined]
        if not n:
            break
        got += n
    return got


def _bytes_of(array: np.ndarray) -> memoryview:
    """The array's bytes in memory order, without a copy if it is contiguous."""
    flat = array.reshape(-1, order="A") if array.ndim else array.reshape(1)
    return memoryview(np.ascontiguousarray(flat).view(np.uint8))  # type: ignore[arg-type]


def _encode(value: object, arrays: list[np.ndarray], path: str) -> object:
    """JSON for one node; arrays are set aside in `arrays`."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(value, arrays, path)
    if isinstance(value, dict):
        if all(type(key) is str for key in value) and "$" not in value:
            return {key: _encode(item, arrays, f"{path}.{key}") for key, item in value.items()}
        pairs = [
            [_encode(key, arrays, path), _encode(item, arrays, f"{path}[{key!r}]")]
            for key, item in value.items()
        ]
        return {"$": "dict", "items": pairs}
    if type(value) is list or type(value) is tuple:
        items = [_encode(item, arrays, f"{path}[{i}]") for i, item in enumerate(value)]
        return items if type(value) is list else {"$": "tuple", "items": items}
    kind = type(value)
    if isinstance(value, Parametric):
        return {"$": "parametric", "class": class_name(kind), "numbers": list(map(float, value))}
    name = record_name(kind)
    if name is not None:
        names = _field_names(kind)
        record = {n: _encode(getattr(value, n), arrays, f"{path}.{n}") for n in names}
        return {"$": "record", "type": name, "of": record}
    raise TypeError(
        f"{path} is a {kind.__module__}.{kind.__qualname__}, which an archive cannot hold; use "
        "dict, list, tuple, str, int, float, bool, None, numpy arrays, or a NamedTuple or "
        f"dataclass that {_PACKAGE}/data/files/records.py names"
    )


def _encode_array(value: object, arrays: list[np.ndarray], path: str) -> dict[str, object]:
    array = np.asarray(value)
    if array.dtype.hasobject:
        items = [_encode(item, arrays, f"{path}[{i}]") for i, item in enumerate(array.flat)]
        return {"$": "objects", "shape": list(array.shape), "items": items}
    columns = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    arrays.append(array if columns or array.flags.c_contiguous else np.ascontiguousarray(array))
    return {
        "$": "scalar" if isinstance(value, np.generic) else "array",
        "dtype": array.dtype.str if array.dtype.names is None else array.dtype.descr,
        "shape": list(array.shape),
        "order": "F" if columns else "C",
        "number": len(arrays) - 1,
    }


def _decode(node: object, arrays: list[np.ndarray], name: str) -> Any:
    if isinstance(node, list):
        return _decode_items(node, arrays, name)
    if not isinstance(node, dict):
        return node
    kind = node.get("$")
    if kind is None:
        return {key: _decode(item, arrays, name) for key, item in node.items()}
    if kind == "tuple":
        return tuple(_decode_items(node["items"], arrays, name))
    if kind == "dict":
        return {_decode(k, arrays, name): _decode(v, arrays, name) for k, v in node["items"]}
    if kind == "parametric":
        return _decode_parametric(node, name)
    if kind == "record":
        return _decode_record(node, arrays, name)
    if kind == "objects":
        flat = np.empty(len(node["items"]), dtype=object)
        flat[:] = [_decode(item, arrays, name) for item in node["items"]]
        return flat.reshape(node["shape"])
    stored = node["dtype"]
    dtype = np.dtype(stored if isinstance(stored, str) else [_field(entry) for entry in stored])
    if dtype.hasobject:
        raise ArchiveError(f"{name}: an array of objects in the place of numbers")
    array = arrays[node["number"]].view(dtype).reshape(node["shape"], order=node["order"])
    return array[()] if kind == "scalar" else array


def _decode_items(items: list[object], arrays: list[np.ndarray], name: str) -> list[object]:
    """The items decoded; names of very many columns are what they are."""
    if set(map(type, items)) <= {str}:
        return items
    return [_decode(item, arrays, name) for item in items]


def _decode_parametric(node: Node, name: str) -> Parametric:
    from ...numeric import losses  # noqa: F401  (the package's own classes are known)
    from ...numeric.bases import registry  # noqa: F401

    value = parametric_of(node["class"], [float(number) for number in node["numbers"]])
    if value is None:
        module = node["class"].rpartition(":")[0]
        raise ArchiveError(
            f"{name} has the loss or basis {node['class']}, which is not known here; "
            + (f"import {module} first" if module else f"upgrade {_PACKAGE}")
        )
    return value


def _decode_record(node: Node, arrays: list[np.ndarray], name: str) -> object:
    kind = record_class(node["type"])
    given = set(node["of"])
    if kind is None or not _required_fields(kind) <= given <= set(_field_names(kind)):
        raise ArchiveError(
            f"{name}: it holds a record {node['type']!r} with the fields "
            f"{', '.join(sorted(given)) or '(none)'}, which is not known to this version of "
            f"{_PACKAGE}; read it with the version that wrote it, or train again"
        )
    values = {key: _decode(item, arrays, name) for key, item in node["of"].items()}
    record: object = kind(**with_floats(kind, values))
    check_types(record)
    if hasattr(record, "check"):
        record.check()
    return record


def _field_names(kind: Any) -> tuple[str, ...]:
    """Names of the constructor's fields of a NamedTuple or dataclass."""
    if issubclass(kind, tuple):
        return tuple(kind._fields)
    return tuple(field.name for field in fields(kind) if field.init)


def _required_fields(kind: Any) -> set[str]:
    """Names of fields without a default: archives of older versions may lack the others."""
    if issubclass(kind, tuple):
        return set(kind._fields) - set(kind._field_defaults)
    return {
        field.name
        for field in fields(kind)
        if field.init and field.default is MISSING and field.default_factory is MISSING
    }


def _field(entry: list[Any]) -> tuple[object, ...]:
    """One field of a structured dtype, back from JSON."""
    return (entry[0], entry[1]) if len(entry) == 2 else (entry[0], entry[1], tuple(entry[2]))
