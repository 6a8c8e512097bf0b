"""Tables that are awkward to read in little memory, each with a small one of the same columns."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

SMALL = 3_000
"""Rows of a small table."""


def write(name, folder, *, small=False):
    """The table's path; written once."""
    path = folder / f"{name.replace(' ', '-')}{'-small' if small else ''}"
    if not path.exists():
        TABLES[name](path, SMALL if small else None)
    return str(path)


def numbers(n, k, rng):
    """n rows of k float32 columns x0, x1, ..., and two classes that the first two tell."""
    X = rng.random((k, n), dtype=np.float32)
    y = (X[0] + X[1] + 0.2 * rng.standard_normal(n, dtype=np.float32) > 1).astype(np.int8)
    return {**{f"x{j}": column for j, column in enumerate(X)}, "y": y}


def one_row_group(path, n):
    """2 M x 12 float32, 92 MiB in one row group; or `n` rows."""
    n, rng = n or 2_000_000, np.random.default_rng(0)
    pq.write_table(pa.table(numbers(n, 12, rng)), path, row_group_size=n)


def tiny_row_groups(path, n):
    """10,000 row groups of 100 rows: a footer of 12 MiB."""
    n, rng = n or 1_000_000, np.random.default_rng(1)
    pq.write_table(pa.table(numbers(n, 12, rng)), path, row_group_size=100)


def long_strings(path, n):
    """300 words of 1,000 characters, 190 MiB decoded; beside pages of 50 kB, no feature."""
    n, rng = n or 200_000, np.random.default_rng(2)
    words = np.array([f"{k:03d} " + "word " * 199 for k in range(300)], object)
    columns = numbers(n, 4, rng)
    writer = None
    for first in range(0, n, 50_000):
        part = {key: value[first : first + 50_000] for key, value in columns.items()}
        m = len(part["y"])
        part["word"] = words[rng.integers(0, 300, m)]
        part["page"] = np.resize(np.array([None] * 99 + ["page " * 10_000], object), m)
        table = pa.table(part)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def distinct_strings(path, n):
    """A column of a million distinct words."""
    n, rng = n or 1_000_000, np.random.default_rng(3)
    words = [f"user {k:07d} {k * 2654435761 % 2**32:08x}" for k in rng.permutation(n)]
    columns = {**numbers(n, 4, rng), "user": words}
    pq.write_table(pa.table(columns), path, row_group_size=250_000)


def nullable(path, n):
    """Numbers, integers and booleans, each missing in a tenth of the rows; 1.5 M x 12."""
    n, rng = n or 1_500_000, np.random.default_rng(4)
    columns = numbers(n, 12, rng)
    for j in range(12):
        values, absent = columns[f"x{j}"], rng.random(n) < 0.1
        kind = (pa.float32(), pa.int64(), pa.bool_(), pa.float64())[j % 4]
        if j % 4 == 1:
            values = (100 * values).astype(np.int64)
        if j % 4 == 2:
            values = values > 0.5
        columns[f"x{j}"] = pa.array(values, kind, mask=absent)
    pq.write_table(pa.table(columns), path, row_group_size=500_000)


def nested_beside(path, n):
    """Lists and structs beside eight columns of numbers, which alone are features."""
    n, rng = n or 1_000_000, np.random.default_rng(5)
    columns = numbers(n, 8, rng)
    lists = pa.ListArray.from_arrays(
        np.arange(0, 4 * n + 1, 4, dtype=np.int32), rng.random(4 * n, dtype=np.float32)
    )
    structs = pa.StructArray.from_arrays([columns["x0"], columns["x1"]], ["a", "b"])
    table = pa.table({"many": lists, **columns, "both": structs})
    pq.write_table(table, path, row_group_size=500_000)


def thousand_classes(path, n):
    """300,000 x 8 with 1,000 classes."""
    n, rng = n or 300_000, np.random.default_rng(6)
    columns = numbers(n, 8, rng)
    columns["y"] = np.arange(n, dtype=np.int16) % 1_000
    pq.write_table(pa.table(columns), path, row_group_size=100_000)


def wide_csr(path, n):
    """A zarr group of 150,000 x 4,000 with 40 values a row: 69 MiB of CSR."""
    n, p, rng = n or 150_000, 4_000, np.random.default_rng(7)
    indices = np.sort(rng.integers(0, p // 40, (n, 40)) + np.arange(40) * (p // 40), axis=1)
    values = rng.random((n, 40), dtype=np.float32) + 0.5
    group = zarr.open_group(path, mode="w", zarr_format=2)
    X = group.create_group("X")
    X.attrs.update({"encoding-type": "csr_matrix", "shape": [n, p]})
    pointers = np.arange(0, 40 * n + 1, 40)
    for key, array in {
        "data": values.ravel(),
        "indices": indices.ravel(),
        "indptr": pointers,
    }.items():
        X.create_array(key, data=array, chunks=(1 << 18,))
    y = (values[:, 0] + values[:, 1] > 2).astype(np.int8)
    group.create_array("y", data=y, chunks=(1 << 16,))


def wide_dense(path, n):
    """32,000 x 1,200 float32, 146 MiB, each column of so many values that it fills its bins."""
    n, p, rng = n or 32_000, 1_200, np.random.default_rng(8)
    group = zarr.open_group(path, mode="w", zarr_format=2)
    X = group.create_array("X", shape=(n, p), chunks=(1_000, p), dtype="float32")
    y = np.empty(n, np.int8)
    for first in range(0, n, 1_000):
        rows = rng.standard_normal((min(1_000, n - first), p), dtype=np.float32)
        X[first : first + 1_000], y[first : first + 1_000] = rows, rows[:, 0] + rows[:, 1] > 0
    group.create_array("y", data=y, chunks=(1 << 16,))


FEATURES = {
    "long strings": ["x0", "x1", "x2", "x3", "word"],
    "nested beside": [f"x{j}" for j in range(8)],
}
"""Columns that are features, where not all are."""

TABLES = {
    "one row group": one_row_group,
    "tiny row groups": tiny_row_groups,
    "long strings": long_strings,
    "distinct strings": distinct_strings,
    "nullable": nullable,
    "nested beside": nested_beside,
    "thousand classes": thousand_classes,
    "wide csr": wide_csr,
    "wide dense": wide_dense,
}
"""Name -> writer of (path, rows or None)."""
