"""A table that is awkward to read in little memory, and a small one of the same columns."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SMALL = 3_000
"""Rows of a small table."""


def write(name, folder, *, small=False):
    """The table's path; written once."""
    path = folder / f"{name.replace(' ', '-')}{'-small' if small else ''}.parquet"
    if not path.exists():
        TABLES[name](path, SMALL if small else None)
    return str(path)


def one_row_group(path, n):
    """2 M x 12 float32, 92 MiB in one row group; or `n` rows."""
    n, rng = n or 2_000_000, np.random.default_rng(0)
    X = rng.random((12, n), dtype=np.float32)
    y = (X[0] + X[1] + 0.2 * rng.standard_normal(n, dtype=np.float32) > 1).astype(np.int8)
    columns = {f"x{j}": column for j, column in enumerate(X)}
    pq.write_table(pa.table({**columns, "y": y}), path, row_group_size=n)


TABLES = {"one row group": one_row_group}
"""Name -> writer of (path, rows or None)."""
