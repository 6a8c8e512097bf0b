"""zarr stores changed at random: metadata, shards, chunks; read by us and by zarr-python."""

import contextlib
import copy
import json
import os
import random
import shutil
import struct

import numcodecs
import numpy as np
import zarr
from hostile.models import change_header
from hostile.parquet import change_bytes, equal_values

import streamlearn as sl

ROWS, WIDTH = 90, 4
MOST_ROWS = 400
"""Rows compared: metadata may promise any number of them, all fill values."""
OPTIONS = {
    2: (
        {"compressors": None},
        {"compressors": numcodecs.Zstd()},
        {"compressors": numcodecs.GZip()},
        {"compressors": numcodecs.Zlib()},
        {"compressors": numcodecs.BZ2()},
        {"compressors": numcodecs.LZMA()},
        {"compressors": numcodecs.LZ4()},
        {"compressors": numcodecs.Blosc("lz4", shuffle=1)},
        {"compressors": numcodecs.Blosc("zstd", shuffle=2), "order": "F"},
        {"compressors": numcodecs.Zstd(), "filters": [numcodecs.Delta("f8")]},
    ),
    3: (
        {"compressors": None},
        {"compressors": zarr.codecs.ZstdCodec()},
        {"compressors": zarr.codecs.ZstdCodec(checksum=True), "shards": (60, 4)},
        {"compressors": zarr.codecs.GzipCodec()},
        {"compressors": zarr.codecs.BloscCodec(cname="lz4")},
        {"compressors": zarr.codecs.BloscCodec(cname="zstd"), "shards": (40, 2)},
        {"compressors": (zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec())},
        {"compressors": None, "shards": (100, 4)},
        {"compressors": None, "filters": zarr.codecs.TransposeCodec(order=(1, 0))},
    ),
}
"""Codecs and layouts of both formats."""
STORES = []
"""(kind, {name of a file: its bytes}) of the stores that are changed."""


def write_dense(path, version, options, dtype, target):
    generator = np.random.default_rng(0)
    group = zarr.open_group(path, mode="w", zarr_format=version)
    X = generator.integers(-20, 90, (ROWS, WIDTH)).astype(dtype)
    group.create_array("X", data=X, chunks=(20, 2), **options)
    if target == "numbers":
        group.create_array("y", data=np.arange(ROWS) % 3, chunks=(25,))
    elif target == "words":
        y = group.create_array("y", shape=(ROWS,), dtype=str, chunks=(25,))
        y[:] = np.array([f"word {k % 3}" for k in range(ROWS)], object)


def write_sparse(path, version, options):
    generator = np.random.default_rng(1)
    indptr = np.append(0, np.cumsum(generator.integers(0, 4, ROWS)))
    group = zarr.open_group(path, mode="w", zarr_format=version)
    group.attrs["encoding-type"] = "anndata"
    X = group.create_group("X")
    X.attrs.update({"encoding-type": "csr_matrix", "shape": [ROWS, 6]})
    n = int(indptr[-1])
    compressors = {"compressors": options["compressors"]}
    X.create_array("data", data=generator.normal(size=n), chunks=(30,), **compressors)
    columns = np.concatenate(
        [np.sort(generator.permutation(6)[:k]) for k in np.diff(indptr)]
    ).astype(np.int32)
    X.create_array("indices", data=columns, chunks=(30,), **compressors)
    X.create_array("indptr", data=indptr, chunks=(40,), **compressors)
    obs = group.create_group("obs")
    label = obs.create_group("label")
    label.attrs["encoding-type"] = "categorical"
    label.create_array("codes", data=(np.arange(ROWS) % 4 - 1).astype(np.int8), chunks=(50,))
    words = label.create_array("categories", shape=(3,), dtype=str, chunks=(3,))
    words[:] = np.array(["a", "b", "c"], object)


def warm(folder):
    """The stores, read by both: equal."""
    path = folder / "s.zarr"
    for version, many in OPTIONS.items():
        for number, options in enumerate(many):
            shutil.rmtree(path, ignore_errors=True)
            plain = "filters" not in options
            if number in (0, 1, 4):
                write_sparse(path, version, options)
                STORES.append(("sparse", files_of(path)))
                assert case_of("sparse", path, lambda: None) == "equal", options
                shutil.rmtree(path)
            dtype = ("f8", "f4", "i4", "i8", "u1")[number % 5] if plain else "f8"
            target = ("numbers", "words", None)[number % 3]
            write_dense(path, version, options, dtype, target)
            STORES.append((target, files_of(path)))
            assert case_of(target, path, lambda: None) == "equal", options


def files_of(path):
    return {
        os.path.relpath(os.path.join(where, name), path): open_bytes(os.path.join(where, name))
        for where, _, names in os.walk(path)
        for name in names
    }


def open_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def is_metadata(name):
    return os.path.basename(name) in ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def changed(rng, files):
    """The files of a store that is not what it was."""
    files = dict(files)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        about_metadata = rng.random() < 0.5
        names = sorted(name for name in files if is_metadata(name) == about_metadata)
        if not names:
            continue
        name, way = rng.choice(names), rng.randrange(10)
        if about_metadata and way < 8:
            change_json(rng, files, name)
        elif way == 8:
            del files[name]
        elif way == 9:
            files[name] = files[rng.choice(names)]
        elif way == 7 and len(files[name]) > 20:
            at = rng.choice((0, len(files[name]) - 20, rng.randrange(len(files[name]) - 8)))
            word = struct.pack("<q", rng.choice((0, -1, 1, 7, 2**20, 2**31, 2**40, 2**62)))
            files[name] = files[name][:at] + word + files[name][at + 8 :]  # a place in a shard
        else:
            files[name] = change_bytes(rng, files[name])
    return files


def change_json(rng, files, name):
    if rng.random() < 0.15:
        files[name] = change_bytes(rng, files[name])
        return
    with contextlib.suppress(ValueError, IndexError):  # what an earlier change left is no JSON
        tree = {"tree": json.loads(files[name])}
        change_header(rng, tree)
        files[name] = json.dumps(tree["tree"]).encode()


def read_ours(kind, path):
    """(features, target) as float64 and a list, of the first `MOST_ROWS` rows."""
    target = {"sparse": "obs/label", None: None}.get(kind, "y")
    data = sl.open_dataset(path, target=target)
    X, y, n = [], [], 0
    with data.reader() as reader:
        for ref in data.refs():
            chunk = reader.read(ref)
            rows = slice(0, MOST_ROWS - n)
            part = chunk.X
            if not isinstance(part, np.ndarray):
                part = dense(part.data, part.indices, part.indptr, part.shape)
            X.append(np.array(part[rows], np.float64))
            y += [] if target is None else list(chunk.y[rows])
            n += chunk.n_rows
            if n >= MOST_ROWS:
                break
    return data.dtype, np.concatenate(X), y


def dense(values, columns, starts, shape):
    X = np.zeros((len(starts) - 1, shape[1]))
    for i, (a, b) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        np.add.at(X[i], columns[a:b].astype(np.int64), values[a:b])
    return X


def read_zarr(kind, path, dtype):
    """The same, of zarr-python."""
    group = zarr.open_group(path, mode="r")
    if kind == "sparse":
        X = group["X"]
        starts = X["indptr"][: MOST_ROWS + 1]
        values = X["data"][:].astype(dtype)
        found = dense(values, X["indices"][:], starts, X.attrs["shape"])
        if isinstance(group["obs/label"], zarr.Array):  # an array's metadata took the group's place
            return found, list(group["obs/label"][:MOST_ROWS])
        codes = group["obs/label/codes"][:MOST_ROWS]
        words = group["obs/label/categories"][:]
        return found, [None if k < 0 else words[k] for k in codes]
    with np.errstate(over="ignore", invalid="ignore"):
        X = group["X"][:MOST_ROWS].astype(dtype).astype(np.float64)
    return X, [] if kind is None else list(group["y"][:MOST_ROWS].reshape(-1))


def case(seed, folder, ours_is_done):
    """What comes of the store with this seed's changes."""
    rng = random.Random(seed)
    kind, files = rng.choice(STORES)
    path = folder / "s.zarr"
    shutil.rmtree(path, ignore_errors=True)
    for name, content in changed(rng, copy.copy(files)).items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return case_of(kind, path, ours_is_done)


def case_of(kind, path, ours_is_done):
    try:
        dtype, X, y = read_ours(kind, path)
    except sl.StreamlearnError:
        return "refused"
    ours_is_done()
    try:
        X_there, y_there = read_zarr(kind, path, dtype)
    except Exception as error:
        return f"LENIENT: zarr says {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    # values of one cell that come twice are added up in another order
    close = 1e-9 if kind == "sparse" else 0.0
    if X.shape != X_there.shape or not np.allclose(X, X_there, close, close, equal_nan=True):
        return "WRONG values in X"
    return "equal" if equal_values(y, y_there) else "WRONG values in y"
