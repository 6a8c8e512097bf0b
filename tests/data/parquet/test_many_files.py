"""Fifty thousand tiny files are one dataset of few refs; most runs try with fewer."""

import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamlearn.data.open import open_dataset
from streamlearn.data.row_ranges import GROUP_BYTES

ROWS, P = 50, 4


@pytest.mark.slow
@pytest.mark.turns(2, 0)
@pytest.mark.parametrize("n_files", [12_000, 50_000])
def test_very_many_files(n_files, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, P), dtype=np.float32)
    first = tmp_path / "first.parquet"
    columns = {**{f"x{j}": X[:, j] for j in range(P)}, "y": np.arange(ROWS, dtype=np.int8)}
    pq.write_table(pa.table(columns), first)
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(n_files):  # names of one file: it is the opening that is tried, not the disk
        os.link(first, folder / f"part-{i}.parquet")
    data = open_dataset(folder, target="y")
    assert data.n_rows == n_files * ROWS
    refs = data.refs()
    assert all(ref.nbytes >= GROUP_BYTES for ref in refs[:-1])
    assert len(refs) <= 1 + data.decoded_nbytes // GROUP_BYTES
    assert len(pickle.dumps(data)) < 200 * n_files  # names, not footers, travel with each read
    assert len(str(data.fingerprint())) < 10_000  # written with every commit of a checkpoint
    with data.reader() as reader:
        chunk = reader.read(refs[-1])
    np.testing.assert_array_equal(chunk.X[-ROWS:], X)
    assert data.place(refs[-1]).endswith(f"part-{n_files - 1}.parquet, row group 0, rows 0..{ROWS}")
    for path in folder.iterdir():
        path.unlink()
