"""The same fit on a dask cluster: two processes, the same bits as threads give."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

import streamlearn as sl


def main(folder):
    rng = np.random.default_rng(0)
    X = rng.random((50_000, 5), dtype=np.float32)
    y = (np.sin(6 * X[:, 0]) + X[:, 1] > rng.random(len(X))).astype(np.int8)
    columns = dict(zip("abcde", X.T.copy(), strict=True))
    pq.write_table(pa.table({**columns, "y": y}), folder / "t.parquet", row_group_size=5_000)
    data = sl.open_dataset(folder / "t.parquet", target="y")

    threads = sl.AdditiveClassifier().fit(data)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):  # the active client is used without being told
        workers = sl.AdditiveClassifier().fit(data)
        workers.predict_to(data, folder / "scores.parquet")  # each worker writes its own parts
    n_parts = len(list((folder / "scores.parquet").glob("part-*.parquet")))
    assert np.array_equal(threads.coef_, workers.coef_)
    print(f"accuracy {workers.score(data):.3f}; threads and workers agree bit for bit")
    print(f"files of predictions, each written by the worker that made it: {n_parts}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
