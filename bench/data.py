"""The tables of the benches: generated sets of any size, and the real ones where they are at hand.

Generated (task A5): columns uniform on [0, 1) as float32,

    F = 2 sin 6x0 + 2 cos 9x1 + 12 (x2 - 1/2)^2 + x3 + ... + x7 - 3,    P(y = 1) = 1/(1 + exp(-F)),

so that the log-loss of the true F is a floor no model can beat.  All further columns are noise.
"""

import os
import shutil
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
ROW_GROUP = 65_536
ZARR_ROWS = 16_384


TITLES = {
    "covtype2": "covtype, class 2",
    "covtype7": "covtype, 7 classes",
    "kdd99": "kdd99, numeric columns",
    "mnist": "mnist, odd or even",
}


class Absent(Exception):
    """A real data set is not on this machine."""


@dataclass(frozen=True)
class Task:
    """A training and a test file of one table."""

    name: str
    train: str
    test: str
    target: str
    n_rows: int
    n_columns: int
    decoded_nbytes: int
    """Of the feature columns, in the dtype of the file."""
    stored_nbytes: int
    kind: str
    """``parquet`` or ``zarr``."""

    def asdict(self):
        return asdict(self)


def title(n_rows, n_columns):
    return f"generated {n_rows:,} x {n_columns}"


def log_odds(X):
    """F of the generated task for rows (m, p >= 8)."""
    X = X.astype(np.float64)
    curves = 2 * np.sin(6 * X[:, 0]) + 2 * np.cos(9 * X[:, 1]) + 12 * (X[:, 2] - 0.5) ** 2
    return curves + X[:, 3:8].sum(axis=1) - 3


def generate(n_rows, n_columns, *, seed=0, pages="plain", block=ROW_GROUP):
    """Yield (X, y) blocks; `pages="dictionary"` puts X on a grid of 1,024 values.

    The stream does not depend on `block`, and X equals one ``default_rng(seed).random`` call.
    """
    values = np.random.default_rng(seed)
    labels = np.random.default_rng([seed, 1])
    for start in range(0, n_rows, block):
        m = min(block, n_rows - start)
        X = values.random((m, n_columns), dtype=np.float32)
        if pages == "dictionary":
            X = np.floor(X * 1024) * np.float32(1 / 1024)
        y = labels.random(m) < 1 / (1 + np.exp(-log_odds(X)))
        yield X, y.astype(np.int8)


def generated(folder, n_rows, n_columns, *, kind="parquet", pages="plain", seed=0, test_rows=None):
    """The generated task as files in `folder`; written once, found again by name."""
    if n_columns < 8:
        raise ValueError(f"the task needs at least 8 columns, got {n_columns}")
    test_rows = test_rows or min(200_000, max(1_000, n_rows // 4))
    suffix = {"parquet": "parquet", "zarr": "zarr"}[kind]
    # the writer's own choice would be a dictionary of 65,536 different values a row group
    write = {
        "parquet": partial(write_parquet, dictionary=pages == "dictionary"),
        "zarr": write_zarr,
    }[kind]
    paths = []
    for part, rows, part_seed in (("train", n_rows, seed), ("test", test_rows, [seed, 2])):
        path = Path(folder) / f"additive-{rows}x{n_columns}-{pages}-{seed}-{part}.{suffix}"
        if not path.exists():
            blocks = generate(rows, n_columns, seed=part_seed, pages=pages)
            write(path, blocks, rows, n_columns)
        paths.append(path)
    return Task(
        name=title(n_rows, n_columns),
        train=str(paths[0]),
        test=str(paths[1]),
        target="y",
        n_rows=n_rows,
        n_columns=n_columns,
        decoded_nbytes=4 * n_rows * n_columns,
        stored_nbytes=size_on_disk(paths[0]),
        kind=kind,
    )


def write_parquet(path, blocks, n_rows, n_columns, *, names=None, target="y", dictionary=True):
    """Blocks as row groups of one snappy file, with dictionary or plain pages."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = names or [f"x{j}" for j in range(n_columns)]
    draft, writer = Path(f"{path}.part"), None
    try:
        for X, y in blocks:
            columns = [pa.array(column) for column in np.asfortranarray(X).T]
            table = pa.table([*columns, pa.array(y)], [*names, target])
            if writer is None:
                writer = pq.ParquetWriter(
                    draft, table.schema, compression="snappy", use_dictionary=dictionary
                )
            writer.write_table(table, row_group_size=ROW_GROUP)
    finally:
        if writer is not None:
            writer.close()
    draft.replace(path)


def write_zarr(path, blocks, n_rows, n_columns):
    """Blocks as a zarr 3 group with `X` and `y`."""
    import zarr

    draft = Path(f"{path}.part")
    shutil.rmtree(draft, ignore_errors=True)
    group = zarr.create_group(str(draft))
    rows = min(ZARR_ROWS, n_rows)
    X = group.create_array("X", shape=(n_rows, n_columns), chunks=(rows, n_columns), dtype="f4")
    y = group.create_array("y", shape=(n_rows,), chunks=(rows,), dtype="i1")
    start = 0
    for Xb, yb in blocks:
        X[start : start + len(yb)] = Xb
        y[start : start + len(yb)] = yb
        start += len(yb)
    draft.rename(path)


def shared_folder():
    """Where the real data sets lie."""
    return Path(os.environ.get("STREAMLEARN_DATA", ROOT.parent / "shared" / "data"))


def real(folder, name):
    """One of ``covtype2 covtype7 kdd99 mnist`` as training and test parquet files in `folder`."""
    shared = shared_folder()
    train, test = {
        "covtype2": lambda: covtype(shared, lambda y: (y == 2).astype(np.int8)),
        "covtype7": lambda: covtype(shared, lambda y: y),
        "kdd99": lambda: kdd99(shared),
        "mnist": lambda: mnist(shared),
    }[name]()
    paths = []
    for part, (names, X, y) in (("train", train), ("test", test)):
        path = Path(folder) / f"{name}-{part}.parquet"
        if not path.exists():
            write_table(path, names, X, y)
        paths.append(path)
    names, X, y = train
    return Task(
        name=TITLES[name],
        train=str(paths[0]),
        test=str(paths[1]),
        target="target",
        n_rows=len(y),
        n_columns=len(names),
        decoded_nbytes=sum(column.nbytes for column in X),
        stored_nbytes=size_on_disk(paths[0]),
        kind="parquet",
    )


def covtype(shared, recode):
    names, X, y = read_table(shared / "covtype" / "covtype_sample16.parquet")
    rows = np.random.default_rng(0).permutation(len(y))
    cut = len(y) * 3 // 4
    parts = rows[:cut], rows[cut:]
    return tuple((names, [column[part] for column in X], recode(y[part])) for part in parts)


def kdd99(shared):
    files = ("train10pct.parquet", "test_corrected.parquet")
    return tuple(read_table(shared / "kdd99" / file) for file in files)


def mnist(shared):
    tables = (read_table(shared / "mnist" / file) for file in ("train.parquet", "test.parquet"))
    return tuple((names, X, (y % 2).astype(np.int8)) for names, X, y in tables)


def read_table(path):
    """Names, columns (a list of arrays) and target of a file's numeric columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        raise Absent(f"no {path}; set STREAMLEARN_DATA to the folder of the real data sets")
    file = pq.ParquetFile(path)
    names = [
        field.name
        for field in file.schema_arrow
        if (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
        and field.name != "target"
    ]
    table = file.read(columns=[*names, "target"])
    return names, [table[name].to_numpy() for name in names], table["target"].to_numpy()


def write_table(path, names, X, y):
    import pyarrow as pa
    import pyarrow.parquet as pq

    draft = Path(f"{path}.part")
    table = pa.table([*map(pa.array, X), pa.array(y)], names=[*names, "target"])
    pq.write_table(table, draft, compression="snappy", row_group_size=ROW_GROUP)
    draft.replace(path)


def load(task, part):
    """(X float32 row-major, y) of a task's part in memory, for the rivals."""
    path, target = task[part], task["target"]
    if task["kind"] == "zarr":
        import zarr

        group = zarr.open_group(path, mode="r")
        return group["X"][:], group["y"][:]
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if name != target]
    X = np.empty((file.metadata.num_rows, len(names)), np.float32)
    for j, name in enumerate(names):
        X[:, j] = file.read(columns=[name])[name].to_numpy()
    return X, file.read(columns=[target])[target].to_numpy()


def labels(task, part):
    """The target alone."""
    if task["kind"] == "zarr":
        import zarr

        return zarr.open_group(task[part], mode="r")["y"][:]
    import pyarrow.parquet as pq

    return pq.ParquetFile(task[part]).read(columns=[task["target"]])[task["target"]].to_numpy()


def size_on_disk(path):
    path = Path(path)
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    return sum(file.stat().st_size for file in files)


def scores(y, classes, probability=None, predicted=None):
    """Accuracy, and log-loss where there are probabilities (m, K); classes unseen in training are
    scored with the smallest probability."""
    y, classes = np.asarray(y), np.asarray(classes)
    if probability is None:
        return {"accuracy": float(np.mean(np.asarray(predicted) == y)), "log_loss": None}
    column = np.searchsorted(classes, y).clip(0, len(classes) - 1)
    of_label = np.where(classes[column] == y, probability[np.arange(len(y)), column], 0.0)
    accuracy = np.mean(classes[probability.argmax(axis=1)] == y)
    return {
        "accuracy": float(accuracy),
        "log_loss": float(-np.mean(np.log(np.maximum(of_label, 1e-15)))),
    }
