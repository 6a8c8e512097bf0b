"""The floor: reads every row group with `ParquetFile.read_row_group` and computes nothing.

The row groups are dealt to `threads` threads, one file handle each, all columns but the target at
once: what an ordinary reader does.
"""

import time
from concurrent.futures import ThreadPoolExecutor


def prepare(**options):
    import pyarrow.parquet  # noqa: F401


def run(report, *, task, threads, **options):
    import pyarrow.parquet as pq

    def read(worker):
        file = pq.ParquetFile(task["train"], pre_buffer=False)
        names = [name for name in file.schema_arrow.names if name != task["target"]]
        return sum(
            file.read_row_group(group, columns=names, use_threads=False).num_rows
            for group in range(worker, file.num_row_groups, threads)
        )

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        rows = sum(pool.map(read, range(threads)))
    report["fit_s"] = time.perf_counter() - start
    report["rows_read"] = rows
