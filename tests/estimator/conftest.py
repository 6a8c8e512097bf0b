"""One small table, in memory and on disk."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

N, NAMES = 500, ["a", "b", "c"]


@pytest.fixture(scope="session")
def table():
    """X (500, 3), y two classes, z a number."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    z = X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(N)
    y = (z > 0).astype(np.int64)
    for array in (X, y, z):
        array.flags.writeable = False  # shared by all tests
    return X, y, z


@pytest.fixture(scope="session")
def parquet(table, tmp_path_factory):
    """Path of a file with columns a, b, c, y (number), label (string), z, w in 5 row groups."""
    X, y, z = table
    columns = dict(zip(NAMES, X.T, strict=True))
    columns |= {"y": y, "label": np.where(y == 1, "yes", "no"), "z": z, "w": np.arange(N) % 3.0}
    path = tmp_path_factory.mktemp("data") / "t.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=100)
    return str(path)
