"""The cost of a scoring read of sparse rows beside decoding them, by the number of classes."""

from pathlib import Path

import numpy as np

ROWS, STORED = 40_000, 100
"""Of a table, and stored values of a row."""
COLUMNS = (20_000, 100_000)
"""Of the tables: the sums of 30 classes take 4.8 and 24 MB."""
TINY = 600, 10, (400, 800)
"""The same of the tiny run."""
CLASSES = (2, 3, 10, 30)
LIMIT = 1.5
"""Largest ratio that is wanted."""
BUDGET = "256MiB"
CHUNK = 1 << 18
"""Stored values of a chunk."""


def costs(session, label, _shared):
    """A row for each number of classes: seconds of the processor, as others may use it too."""
    options = session.options
    n_rows, stored, widths = TINY if options.tiny else (options.rows or ROWS, STORED, COLUMNS)
    for n_columns in widths:
        report = session.measure(
            "shareboost_sparse",
            label=label,
            data=str(store(options.data, n_rows, n_columns, stored, seed=options.seed)),
            classes=CLASSES,
            budget=BUDGET,
        )
        for n_classes, of in zip(CLASSES, report.get("costs", ()), strict=False):
            ratio = of["score_read_cpu_s"] / of["read_alone_cpu_s"]
            session.add(
                {
                    "experiment": label,
                    "table": f"{n_rows:,} x {n_columns:,}, {stored} values a row",
                    "classes": n_classes,
                    "reading alone, CPU s": of["read_alone_cpu_s"],
                    "scoring read, CPU s": of["score_read_cpu_s"],
                    "ratio": ratio,
                    "at most 1.5": "yes" if ratio <= LIMIT else "no",
                }
            )


def store(folder, n_rows, n_columns, stored, *, seed):
    """Path of a zarr group of CSR rows, with a target of each number of classes beside them."""
    import zarr

    path = Path(folder) / f"sparse-{n_rows}x{n_columns}-{stored}-{seed}.zarr"
    if path.exists():
        return path
    rng = np.random.default_rng(seed)
    wide = n_columns // stored
    columns = rng.integers(0, wide, (n_rows, stored)) + np.arange(stored) * wide
    arrays = {
        "data": rng.random(n_rows * stored, dtype=np.float32),
        "indices": columns.ravel().astype(np.int32),
        "indptr": np.arange(0, n_rows * stored + 1, stored),
    }
    draft = path.with_suffix(".part")
    group = zarr.open_group(str(draft), mode="w")
    X = group.create_group("X")
    X.attrs.update({"encoding-type": "csr_matrix", "shape": [n_rows, n_columns]})
    for name, array in arrays.items():
        X.create_array(name, data=array, chunks=(min(CHUNK, len(array)),))
    for n_classes in CLASSES:
        y = rng.integers(0, n_classes, n_rows).astype(np.int8)
        group.create_array(target(n_classes), data=y, chunks=(n_rows,))
    draft.rename(path)
    return path


def target(n_classes):
    """Name of the array of so many classes."""
    return f"y{n_classes}"
