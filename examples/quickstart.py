"""From a parquet file to a certified model, its scores and a saved copy, in 64 MiB."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamlearn as sl


def write(path, n_rows, seed):
    """A table whose classes depend on x0 and x1 by curves, on x2 not at all."""
    rng = np.random.default_rng(seed)
    x = rng.random((3, n_rows), dtype=np.float32)
    f = 3 * np.sin(6 * x[0]) + 12 * (x[1] - 0.5) ** 2 - 1
    label = np.where(rng.random(n_rows) < 1 / (1 + np.exp(-f)), "yes", "no")
    table = pa.table({"x0": x[0], "x1": x[1], "x2": x[2], "label": label})
    pq.write_table(table, path, row_group_size=10_000)


def main(folder):
    write(folder / "train.parquet", 50_000, seed=0)
    write(folder / "test.parquet", 10_000, seed=1)

    train = sl.open_dataset(folder / "train.parquet", target="label")
    test = sl.open_dataset(folder / "test.parquet", target="label")
    print(train.summary())

    model = sl.AdditiveClassifier(n_bases=20, C=1.0)
    with sl.config_context(memory_budget="64MiB"):
        print(sl.plan(model, train))
        model.fit(train)
    print(model.certificate_)
    print(f"accuracy {model.score(test):.3f}")

    model.predict_to(test, folder / "scores.parquet", what="probability")
    sl.save(model, folder / "model.slm")
    again = sl.load(folder / "model.slm")
    assert np.array_equal(again.predict_proba(test), model.predict_proba(test))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
