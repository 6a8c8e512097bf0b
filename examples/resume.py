"""Kill a fit in the middle and run it again: it goes on from there, to the same bits."""

import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamlearn as sl


def write(path):
    rng = np.random.default_rng(0)
    X = rng.random((200_000, 8), dtype=np.float32)
    y = X[:, 0] + np.sin(7 * X[:, 1]) + rng.normal(0, 0.3, len(X)) > 0.8
    pq.write_table(
        pa.table([*X.T.copy(), y.astype(np.int8)], [*(f"x{j}" for j in range(8)), "y"]),
        path,
        row_group_size=10_000,
    )


def fit(path, checkpoint=None):
    model = sl.AdditiveClassifier(tol=1e-8)
    return model.fit(sl.open_dataset(path, target="y"), checkpoint=checkpoint)


def main(folder):
    path, checkpoint = folder / "train.parquet", folder / "run1"
    write(path)
    whole = fit(path)

    process = multiprocessing.get_context("spawn").Process(target=fit, args=(path, checkpoint))
    process.start()
    while process.is_alive() and not checkpoint.exists():
        time.sleep(0.01)
    time.sleep(0.1)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    print(f"the first process ended with exit code {process.exitcode}")

    resumed = fit(path, checkpoint)
    print(f"resumed: gap {resumed.certificate_.relative_gap:.1e}")
    assert np.array_equal(resumed.coef_, whole.coef_)
    print("the coefficients are those of the fit that was not killed, bit for bit")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
