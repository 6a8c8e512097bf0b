"""A table, a checkpoint and predictions in an object store: nothing is copied to this machine.

The store is moto, an S3 in this process; with a real one, what `main` is given is all that differs.
"""

import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import s3fs
from moto.server import ThreadedMotoServer

import streamlearn as sl


def main(store):
    files = s3fs.S3FileSystem(**store)
    files.mkdir("bucket")
    rng = np.random.default_rng(0)
    for part in range(4):
        x = rng.random((3, 10_000), dtype=np.float32)
        y = np.sin(6 * x[0]) + x[1] > rng.normal(0.6, 0.2, 10_000)
        table = pa.table({"a": x[0], "b": x[1], "c": x[2], "y": y.astype(np.int8)})
        with files.open(f"bucket/train/{part}.parquet", "wb") as file:
            pq.write_table(table, file, row_group_size=2500)

    data = sl.open_dataset("s3://bucket/train/*.parquet", target="y", storage_options=store)
    with sl.config_context(memory_budget="64MiB", storage_options=store):
        model = sl.AdditiveClassifier().fit(data, checkpoint="s3://bucket/run1/")
        again = sl.AdditiveClassifier().fit(data, checkpoint="s3://bucket/run1/")
        model.predict_to(data, "s3://bucket/scores.parquet", what="probability")
    assert np.array_equal(model.coef_, again.coef_)
    print(f"{data.n_rows} rows, accuracy {model.score(data):.3f}, {model.n_passes_} reads")
    print("the second fit took the first one's end from the checkpoint")
    written = sorted(files.ls("bucket/scores.parquet"))
    print("written:", *(name.rpartition("/")[2] for name in written))


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request otherwise
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    main({"key": "testing", "secret": "testing", "endpoint_url": f"http://127.0.0.1:{port}"})
    server.stop()
