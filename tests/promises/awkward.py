"""Tables that are awkward to read in little memory, and small ones of the same columns.

Each takes seconds to write and tens of megabytes on disk; decoded at once it would be over the
budget of the cells that read it, but for the two that are awkward by their number of pieces.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SMALL = 3_000
"""Rows of a small table: more than the classes of any."""


def write(name, folder, *, small=False):
    """The table's path; written once."""
    suffix = ".zarr" if name == "wide CSR" else ".parquet"
    path = folder / f"{name.replace(' ', '-')}{'-small' if small else ''}{suffix}"
    if not path.exists():
        TABLES[name](path, SMALL if small else None)
    return str(path)


def _numbers(n, p):
    rng = np.random.default_rng(0)
    X = rng.random((p, n), dtype=np.float32)
    y = (X[0] + X[1] + 0.2 * rng.standard_normal(n, dtype=np.float32) > 1).astype(np.int8)
    return {f"x{j}": column for j, column in enumerate(X)}, y


def _write(path, columns, y, row_group=None):
    table = pa.table({**columns, "y": y})
    pq.write_table(table, path, row_group_size=row_group or len(y))


def one_row_group(path, n):
    """2 M x 12 float32, 96 MB in one row group."""
    _write(path, *_numbers(n or 2_000_000, 12))


def tiny_row_groups(path, n):
    """10,000 row groups of 20 rows."""
    _write(path, *_numbers(n or 200_000, 8), row_group=20)


def long_strings(path, n):
    """60,000 strings of 1 kB, no two alike."""
    columns, y = _numbers(n or 60_000, 4)
    columns["s"] = [f"{i:08d}" + "long " * 200 for i in range(len(y))]
    _write(path, columns, y)


def distinct_strings(path, n):
    """A million short strings, no two alike, in one row group."""
    columns, y = _numbers(n or 1_000_000, 4)
    columns["s"] = [f"id-{i:09d}" for i in np.random.default_rng(1).permutation(len(y))]
    _write(path, columns, y)


def string_target(path, n):
    """A million labels of strings in one row group."""
    columns, y = _numbers(n or 1_000_000, 4)
    _write(path, columns, np.where(y > 0, "yes", "no"))


def nullable(path, n):
    """A million rows of floats and whole numbers, a tenth of each missing."""
    columns, y = _numbers(n or 1_000_000, 8)
    rng = np.random.default_rng(2)
    for name, column in list(columns.items()):
        if name in ("x2", "x3"):
            column = np.floor(100 * column).astype(np.int32)
        columns[name] = pa.array(column, mask=rng.random(len(y)) < 0.1)
    _write(path, columns, y)


def nested(path, n):
    """Lists and structs, most of the file, beside the numbers."""
    columns, y = _numbers(n or 500_000, 6)
    ends = np.arange(0, 8 * len(y) + 1, 8, dtype=np.int32)
    values = np.random.default_rng(3).random(8 * len(y), dtype=np.float32)
    columns["list"] = pa.ListArray.from_arrays(ends, values)
    columns["pair"] = pa.StructArray.from_arrays([values[: len(y)], values[-len(y) :]], ["a", "b"])
    _write(path, columns, y)


def many_classes(path, n):
    """A thousand classes."""
    columns, y = _numbers(n or 100_000, 6)
    _write(path, columns, (np.arange(len(y)) % 1000).astype(np.int16), row_group=20_000)


def wide_csr(path, n):
    """5,000 x 50,000 with 100 values stored a row."""
    import zarr

    n = 600 if n else 5_000
    rng = np.random.default_rng(4)
    root = zarr.open_group(str(path), mode="w")
    group = root.create_group("X")
    group.attrs.update({"encoding-type": "csr_matrix", "shape": [n, 50_000]})
    indices = np.sort(rng.integers(0, 500, (n, 100)) + 500 * np.arange(100), axis=1)
    y = (indices[:, 0] < 250).astype(np.int8)
    parts = {
        "data": rng.random(100 * n, dtype=np.float32),
        "indices": indices.ravel().astype(np.int32),
        "indptr": np.arange(0, 100 * n + 1, 100, dtype=np.int64),
    }
    for name, values in parts.items():
        group.create_array(name, data=values, chunks=min(len(values), 1 << 16))
    root.create_array("y", data=y)


TABLES = {
    "one row group": one_row_group,
    "tiny row groups": tiny_row_groups,
    "long strings": long_strings,
    "distinct strings": distinct_strings,
    "string target": string_target,
    "nullable": nullable,
    "nested": nested,
    "many classes": many_classes,
    "wide CSR": wide_csr,
}
"""Name -> writer of (path, rows or None)."""
