"""Runs `fit_job.py` in fresh processes, and makes its data."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCRIPT = Path(__file__).with_name("fit_job.py")


def start(**job):
    return subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(job)], capture_output=True, text=True, timeout=900
    )


def run(**job):
    """The job's report; fails with its error output."""
    done = start(**job)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def write_rows(
    path, n_rows, n_columns, *, row_group=2_000, n_classes=2, seed=0, levels=False, joint=False
):
    """A table on which an additive model is right; column x1 has five values.

    `levels`: x1 is one of 5,000 words, a few of them frequent, and x3 has missing values.
    `joint`: x3 and x4 act together, which no sum of curves can follow.
    """
    rng = np.random.default_rng(seed)
    writer = None
    for first in range(0, n_rows, row_group):
        m = min(row_group, n_rows - first)
        X = rng.random((m, n_columns), dtype=np.float32)
        X[:, 1] = np.floor(5 * X[:, 1])
        f = np.sin(6 * X[:, 0]) + 0.3 * X[:, 1] + (X[:, 2] - 0.5) ** 2
        if joint:
            f += 4 * (X[:, 3] - 0.5) * (X[:, 4] - 0.5)
        score = f + 0.5 * rng.standard_normal(m)
        y = np.digitize(score, np.linspace(0.3, 1.4, n_classes - 1)).astype(np.int8)
        columns = {f"x{j}": X[:, j] for j in range(n_columns)}
        if levels:
            columns["x1"] = [f"word {k}" for k in np.minimum(rng.zipf(1.4, m), 5_000)]
            columns["x3"] = np.where(rng.random(m) < 0.1, np.float32("nan"), X[:, 3])
        table = pa.table({**columns, "y": y})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=row_group)
    writer.close()
    return str(path)
