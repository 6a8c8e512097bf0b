"""Pixels of handwritten digits as sparse rows in memory, and dense rows of the same kind."""

import numpy as np

from .data import Absent, shared_folder


def pixel_task(options):
    """What `pixels` loads: the real digits, or a few made-up rows for the tests' size."""
    if options.tiny:
        return {"rows": 600, "seed": options.seed}
    path = shared_folder() / "mnist" / "train.parquet"
    if not path.exists():
        raise Absent(f"no {path}; set STREAMLEARN_DATA to the folder of the real data sets")
    return {"path": str(path), "target": "target"}


def pixels(task, classes):
    """(CSR of bytes 0 to 255, labels): odd or even for two classes, else the digit."""
    import scipy.sparse

    if "path" not in task:
        rng = np.random.default_rng(task["seed"])
        X = rng.random((task["rows"], 30)) * (rng.random((task["rows"], 30)) < 0.3)
        digit = np.floor(10 * X[:, :4].mean(axis=1) / X[:, :4].mean(axis=1).max()).clip(0, 9)
        X = np.ceil(255 * X)
    else:
        import pyarrow.parquet as pq

        table = pq.read_table(task["path"])
        names = [name for name in table.schema.names if name != task["target"]]
        X = np.column_stack([table[name].to_numpy() for name in names])
        digit = table[task["target"]].to_numpy()
    X = scipy.sparse.csr_matrix(X.astype(np.uint8))
    return X, (digit % 2 if classes == 2 else digit).astype(np.int64)


def dense_pixels(rows, columns, seed):
    """(X float32, y = +1/-1): dense rows of which the first two columns matter, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((rows, columns), dtype=np.float32)
    return X, np.sign(X[:, 0] + X[:, 1] - 1 + 0.3 * rng.standard_normal(rows))
