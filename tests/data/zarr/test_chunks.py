"""Missing chunks of zarr stores: counted, told, and refused where they are still to come."""

import numpy as np
import pytest
import zarr

import streamlearn as sl
from streamlearn.errors import SourceError

N, P, ROWS = 60, 4, 10
FORMATS = {"v3": {"zarr_format": 3}, "v2": {"zarr_format": 2}, "shards": {"shards": (20, 4)}}


def write(folder, *, rows=N, zarr_format=3, **how):
    X = np.arange(1.0, N * P + 1).reshape(N, P)
    group = zarr.open_group(folder / "t.zarr", mode="w", zarr_format=zarr_format)
    array = group.create_array("X", shape=X.shape, chunks=(ROWS, 2), dtype="f8", **how)
    array[:rows] = X[:rows]
    group.create_array("y", data=X[:, 0], chunks=(ROWS,))
    return folder / "t.zarr"


def chunk_files(path):
    marks = (".zarray", ".zattrs", "zarr.json")
    return sorted(f for f in (path / "X").rglob("*") if f.is_file() and f.name not in marks)


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS)
def test_missing_chunks_are_counted_told_and_refused_if_asked(tmp_path, how):
    path = write(tmp_path, **how)
    whole = sl.open_dataset(path, target="y", missing_chunks="error")
    assert whole.n_missing_chunks == whole.summary().n_missing_chunks == 0
    chunk_files(path)[0].unlink()
    data = sl.open_dataset(path, target="y")
    assert data.n_missing_chunks == 1
    assert "1 chunks, read as the fill value" in repr(data)
    assert "1 chunks are not stored: their cells are the fill value" in str(data.summary())
    assert next(data.iter_chunks()).X[0, 0] == 0
    n = len(chunk_files(path)) + 1
    with pytest.raises(SourceError, match=rf'lacks 1 of {n} chunks, the first is X/.*"fill"'):
        sl.open_dataset(path, target="y", missing_chunks="error")


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("rows", [0, 20, 40])
def test_a_store_whose_writer_did_not_come_to_the_end_is_refused(tmp_path, how, rows):
    path = write(tmp_path, rows=rows, **how)
    with pytest.raises(SourceError, match=r"lacks .* chunks.*writer has not come to the end"):
        sl.open_dataset(path, target="y")
    data = sl.open_dataset(path, target="y", missing_chunks="fill")
    assert data.n_missing_chunks == data.summary().n_missing_chunks > 0


def test_a_half_written_file_beside_a_missing_chunk_is_a_writer_too(tmp_path):
    path = write(tmp_path)
    file = chunk_files(path)[0]
    file.rename(file.with_name("0.0123abcd.partial"))
    with pytest.raises(SourceError, match="lacks 1 of 12 chunks.*has not come to the end"):
        sl.open_dataset(path, target="y")


def test_a_target_of_fill_values_at_the_end_is_no_sign_of_a_writer(tmp_path):
    path = write(tmp_path)
    zarr.open_group(path)["y"][30:] = 0.0  # such chunks are not stored
    assert sl.open_dataset(path, target="y").n_missing_chunks == 3
    with pytest.raises(SourceError, match="/y lacks 3 of 6 chunks"):
        sl.open_dataset(path, target="y", missing_chunks="error")


def test_stores_that_are_no_folders_are_counted_too(tmp_path):
    memory = zarr.storage.MemoryStore()
    url = f"memory://missing{tmp_path}/t.zarr"
    for store in (memory, url):
        group = zarr.open_group(store, mode="w")
        group.create_array("X", shape=(N, P), chunks=(ROWS, 2), dtype="f8")[ROWS:] = 1.0
        source = zarr.open_group(store, mode="r") if store is memory else store
        assert sl.open_dataset(source).n_missing_chunks == 2


def test_what_is_no_zarr_store_has_no_missing_chunks():
    with pytest.raises(SourceError, match="missing_chunks is for zarr stores, not for"):
        sl.open_dataset(np.ones((3, 2)), missing_chunks="error")
    with pytest.raises(ValueError, match="missing_chunks='no'; it is 'fill', 'error' or None"):
        sl.open_dataset(np.ones((3, 2)), missing_chunks="no")


def test_many_chunks_take_little_room(tmp_path, monkeypatch):
    import pickle

    X = np.ones((2000, 2), np.float32)
    group = zarr.open_group(tmp_path / "t.zarr", mode="w")
    group.create_array("X", data=X, chunks=(2, 2), compressors=None)
    data = sl.open_dataset(tmp_path / "t.zarr", chunk_rows=100)
    assert len(pickle.dumps(data)) < 20_000  # 1,000 chunks in 250 runs
    asked = []
    look = type(data.store.chunks["X"])._look
    monkeypatch.setattr(
        type(data.store.chunks["X"]),
        "_look",
        lambda self, run: asked.append(run) or look(self, run),
    )
    with data.reader() as reader:
        for ref in data.refs()[3:5]:
            reader.read(ref)
    assert asked == list(range(300 // 8, 499 // 8 + 1))  # those that were read, once each
