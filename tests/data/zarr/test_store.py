import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from streamlearn.data.open import open_dataset
from streamlearn.data.zarr.opening import open_zarr
from streamlearn.data.zarr.rows import Rows
from streamlearn.errors import SourceError

N = 53
X = np.random.default_rng(0).integers(0, 100, (N, 7)).astype(np.float64)
Y = np.arange(N) % 3
NAMES = [f"x{j}" for j in range(7)]


def write(path, X=X, y=Y, zarr_format=3, chunks=(10, 7), **options):
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    group.create_array("X", data=X, chunks=chunks, **options)
    if y is not None:
        group.create_array("y", data=y, chunks=(17,))
    return str(path)


def rows_in_steps(store, names, step, target=None, dtype="f8", weight=None):
    reader = store.open(names, target, weight, np.dtype(dtype))
    for start in range(0, store.n_rows, step):
        stop = min(start + step, store.n_rows)
        yield start, stop, reader.read(start, stop)
    reader.close()


@pytest.mark.parametrize(
    ("zarr_format", "chunks", "options"),
    [
        (2, (10, 7), {}),
        (2, (10, 3), {"order": "F"}),
        (2, (10, 7), {"compressors": None}),
        (3, (10, 7), {}),
        (3, (100, 2), {}),
        (3, (1, 1), {"compressors": None}),
        (3, (5, 7), {"shards": (20, 7)}),
        (3, (5, 3), {"shards": (20, 6)}),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "i2", ">f8", "i8"])
def test_layouts(tmp_path, zarr_format, chunks, options, dtype):
    path = write(tmp_path, X.astype(dtype), Y, zarr_format, chunks, **options)
    store = pickle.loads(pickle.dumps(open_zarr(path)))
    assert len(pickle.dumps(store)) < 10_000
    assert (store.n_rows, store.default_target, store.default_weight) == (N, "y", None)
    assert store.boundaries()[[0, -1]].tolist() == [0, N]
    for names, step in ((NAMES, 4), (NAMES[2:5], 20), (["x6", "x0", "x3"], 16), (["x0", "x5"], 99)):
        which = [NAMES.index(name) for name in names]
        for start, stop, chunk in rows_in_steps(store, names, step, "y"):
            np.testing.assert_array_equal(chunk.X, X[start:stop, which])
            np.testing.assert_array_equal(chunk.y, Y[start:stop])
            chunk.X[...] = -1  # rows handed out are the caller's


def test_reads_in_any_order(tmp_path):
    reader = open_zarr(write(tmp_path)).open(NAMES, "y", None, np.dtype("f8"))
    rng = np.random.default_rng(1)
    for _ in range(30):
        start = int(rng.integers(0, N))
        stop = int(rng.integers(start + 1, N + 1))
        np.testing.assert_array_equal(reader.read(start, stop).X, X[start:stop])


class Counting:
    """A zarr array that writes down which chunks are asked for."""

    def __init__(self, array):
        self.array, self.asked = array, []

    def __getattr__(self, name):
        return getattr(self.array, name)

    def get_basic_selection(self, selection, out=None):
        c = self.array.chunks
        i, j = (s.start // n for s, n in zip(selection, c, strict=True))
        k, m = (-(-s.stop // n) for s, n in zip(selection, c, strict=True))
        self.asked += [(a, b) for a in range(i, k) for b in range(j, m)]
        return self.array.get_basic_selection(selection, out=out)


@pytest.mark.parametrize("step", [3, 10, 16, 25])
def test_every_chunk_is_decoded_once(tmp_path, step):
    array = Counting(zarr.open_group(write(tmp_path, chunks=(10, 2)))["X"])
    rows = Rows(array, [2, 3, 4], np.dtype("f4"), "")
    for start in range(0, N, step):
        rows.read(start, min(start + step, N))
    assert sorted(array.asked) == [(i, j) for i in range(6) for j in (1, 2)]


def test_units_and_overhead(tmp_path):
    small = open_zarr(write(tmp_path / "a", chunks=(5, 7), shards=(20, 7)))
    assert small.boundaries().tolist() == [0, 20, 40, N]
    big = zarr.open_group(tmp_path / "b", mode="w")
    big.create_array(
        "X", shape=(4_000_000, 4), chunks=(10_000, 4), shards=(2_000_000, 4), dtype="f8"
    )
    store = open_zarr(tmp_path / "b", missing_chunks="fill")
    assert np.diff(store.boundaries()).max() == 10_000
    whole = zarr.open_group(tmp_path / "c", mode="w")
    whole.create_array("X", shape=(1_000_000, 4), chunks=(1_000_000, 4), dtype="f4")
    store = open_zarr(tmp_path / "c", missing_chunks="fill")
    # one chunk of 16 MB: as bytes, decoded, and the rest of the run (counted as float64)
    assert store.overhead_nbytes(NAMES[:4], 1000) == 2 * 16_000_000 + 999_000 * 32
    read = store.open(NAMES[:4], None, None, np.dtype("f4")).read(5000, 6000)
    assert read.X.shape == (1000, 4)
    assert not read.X.any()  # a missing chunk is the fill value


def test_sources(tmp_path):
    path = write(tmp_path / "a")
    group = zarr.open_group(path, mode="r")
    memory = zarr.open_group(zarr.storage.MemoryStore(), mode="w")
    memory.create_array("X", data=X)
    for source, options in (
        (Path(path), None),
        (group, None),
        (group["X"], None),
        (f"{path}/X", None),
        (f"file://{path}", {"auto_mkdir": False}),
        (memory, None),
    ):
        store = pickle.loads(pickle.dumps(open_zarr(source, options)))
        assert store.in_memory == (source is memory)
        chunk = store.open(NAMES, None, None, np.dtype("f8")).read(3, 20)
        np.testing.assert_array_equal(chunk.X, X[3:20])
        assert store.stored_nbytes(NAMES) > 0
    for source in (group["X"], f"{path}/X"):  # a target beside the array
        store = open_zarr(source, target="y")
        assert (store.open(NAMES, "y", None, np.dtype("f8")).read(3, 20).y == Y[3:20]).all()
    store = open_zarr(group["X"], target=Y, weight=np.ones(N))  # in memory
    chunk = store.open(NAMES, "y", "sample_weight", np.dtype("f8")).read(3, 20)
    assert (chunk.y == Y[3:20]).all()
    assert (chunk.weight == 1).all()
    assert (store.open(NAMES[1:], "x0", None, np.dtype("f8")).read(3, 9).y == X[3:9, 0]).all()


def test_roles_in_a_dataset(tmp_path):
    path = write(tmp_path / "a")
    dataset = open_dataset(path)
    assert (dataset.target, dataset.weight, dataset.feature_names) == ("y", None, tuple(NAMES))
    zarr.open_group(path, mode="a").create_array("layers/scaled", data=X / 2)
    dataset = open_dataset(path, features="layers/scaled")
    (chunk,) = dataset.iter_chunks()
    np.testing.assert_array_equal(chunk.X, X / 2)


def test_fsspec_memory(tmp_path):
    import fsspec

    fs = fsspec.filesystem("memory")
    fs.put(write(tmp_path / "a"), "/streamlearn-test/a.zarr", recursive=True)
    store = open_zarr(
        "memory://streamlearn-test/a.zarr", storage_options={"use_listings_cache": False}
    )
    chunk = store.open(NAMES, "y", None, np.dtype("f4")).read(3, 20)
    np.testing.assert_array_equal(chunk.X, X[3:20])
    fs.rm("/streamlearn-test", recursive=True)


def test_fingerprint(tmp_path):
    write(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "moved")
    a, moved = (open_zarr(tmp_path / name).fingerprint() for name in ("a", "moved"))
    assert a == moved
    assert a != open_zarr(write(tmp_path / "b", chunks=(20, 7))).fingerprint()


@pytest.fixture(params=[2, 3])
def cells(tmp_path, request):
    anndata = pytest.importorskip("anndata")
    pd = pytest.importorskip("pandas")
    counts = sp.csr_array(np.where(X % 3 == 0, X, 0).astype(np.float32))
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical([["b", "a", None][i % 3] for i in range(N)]),
            "batch": ["u", "v"] * (N // 2) + ["w"],
            "depth": pd.array([None, *range(1, N)], "Int64"),
        },
        index=[f"c{i}" for i in range(N)],
    )
    data = anndata.AnnData(counts, obs, pd.DataFrame(index=[f"gene{j}" for j in range(7)]))
    data.layers["dense"] = X
    data.layers["raw"] = counts * 2
    before = anndata.settings.zarr_write_format
    anndata.settings.zarr_write_format = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.write_zarr(tmp_path / "cells.zarr")
    anndata.settings.zarr_write_format = before
    return tmp_path / "cells.zarr", counts.toarray()


GENES = [f"gene{j}" for j in range(7)]


@pytest.mark.parametrize("names", [GENES, ["gene5", "gene1"]])
def test_anndata(cells, names):
    path, counts = cells
    store = pickle.loads(pickle.dumps(open_zarr(path, target="obs/cell_type")))
    assert [column.name for column in store.columns] == [*GENES, "obs/cell_type"]
    assert store.sparse
    which = [GENES.index(name) for name in names]
    for start, stop, chunk in rows_in_steps(store, names, 8, "obs/cell_type", "f4"):
        csr = sp.csr_array(tuple(chunk.X[:3]), shape=chunk.X.shape)
        np.testing.assert_array_equal(csr.toarray(), counts[start:stop, which])
        assert chunk.y.tolist() == [["b", "a", None][i % 3] for i in range(start, stop)]
    assert store.row_nbytes(names, np.dtype("f4")) > 0
    assert store.overhead_nbytes(names, 8) > 0


def test_anndata_layers_and_other_targets(cells):
    path, counts = cells
    for source, features in ((f"{path}/layers/raw", None), (path, "layers/raw")):
        store = open_zarr(source, target="obs/batch", features=features)
        chunk = store.open(GENES, "obs/batch", None, np.dtype("f8")).read(1, 4)
        csr = sp.csr_array(tuple(chunk.X[:3]), shape=chunk.X.shape)
        np.testing.assert_array_equal(csr.toarray(), 2 * counts[1:4])
        assert chunk.y.tolist() == ["v", "u", "v"]
    store = open_zarr(f"{path}/layers/dense", target="obs/depth")
    chunk = store.open(GENES, "obs/depth", None, np.dtype("f8")).read(0, 3)
    np.testing.assert_array_equal(chunk.y, [np.nan, 1, 2])
    np.testing.assert_array_equal(chunk.X, X[:3])


def test_csr_with_unsorted_columns(tmp_path):
    group = zarr.open_group(tmp_path, mode="w").create_group("X")
    group.attrs.update({"encoding-type": "csr_matrix", "shape": [2, 3]})
    for name, values in (("data", [1.0, 2, 3]), ("indices", [2, 0, 1]), ("indptr", [0, 2, 3])):
        group.create_array(name, data=np.array(values))
    reader = open_zarr(tmp_path).open(["x0", "x1", "x2"], None, None, np.dtype("f8"))
    for _ in range(2):
        assert reader.read(0, 2).X.indices.tolist() == [0, 2, 1]
        assert reader.read(0, 2).X.data.tolist() == [2, 1, 3]
    group["indices"][0] = 7
    with pytest.raises(SourceError, match="column index outside 0 to 2"):
        open_zarr(tmp_path).open(["x0"], None, None, np.dtype("f8")).read(0, 2)


def test_legacy_categories(tmp_path):
    root = zarr.open_group(write(tmp_path, y=None, zarr_format=2), mode="a")
    codes = root.create_array("obs/kind", data=(Y - 1).astype("i1"))
    codes.attrs["categories"] = "__categories/kind"
    root.create_array("obs/__categories/kind", data=np.array([10, 20]))
    store = open_zarr(tmp_path, target="obs/kind")
    chunk = store.open(NAMES, "obs/kind", None, np.dtype("f8")).read(0, 3)
    np.testing.assert_array_equal(chunk.y, [np.nan, 10, 20])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_corrupted_chunk_is_named(tmp_path, zarr_format):
    path = write(tmp_path, zarr_format=zarr_format, chunks=(10, 4))
    chunk = tmp_path / "X" / ("c/2/1" if zarr_format == 3 else "2.1")
    chunk.write_bytes(b"\x01" * 20)
    reader = open_zarr(path).open(NAMES, None, None, np.dtype("f8"))
    with pytest.raises(SourceError, match=r"array /X, chunk \(2, 1\), rows 20 to 30 cannot be dec"):
        reader.read(0, N)
    np.testing.assert_array_equal(reader.read(30, N).X, X[30:])
    reader = open_zarr(path).open(NAMES[:4], None, None, np.dtype("f8"))
    np.testing.assert_array_equal(reader.read(0, N).X, X[:, :4])


def test_corrupted_shard_is_named(tmp_path):
    path = write(tmp_path, chunks=(5, 7), shards=(20, 7))
    shard = tmp_path / "X" / "c" / "1" / "0"
    damaged = bytearray(shard.read_bytes())
    damaged[:40] = b"\x01" * 40
    shard.write_bytes(damaged)
    with pytest.raises(SourceError, match=r"chunk \(4, 0\), rows 20 to 25 cannot be decoded"):
        open_zarr(path).open(NAMES, None, None, np.dtype("f8")).read(0, N)


def test_bad_input(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="empty is no zarr array or group"):
        open_zarr(tmp_path / "empty")
    with pytest.raises(SourceError, match="nope is no zarr array or group"):
        open_zarr(tmp_path / "nope")
    path = write(tmp_path / "a")
    with pytest.raises(SourceError, match="has no array 'label'; it has X, y"):
        open_zarr(path, target="label")
    with pytest.raises(SourceError, match="has no array 'Z'; it has X, y"):
        open_zarr(path, features="Z")
    with pytest.raises(SourceError, match="X has 53 rows but 'y' has 52; they must be of equal"):
        open_zarr(write(tmp_path / "b", y=Y[1:]))
    with pytest.raises(SourceError, match=r"Expected 2D array, got shape \(53,\)"):
        open_zarr(f"{path}/y")
    with pytest.raises(SourceError, match="Complex data not supported"):
        open_zarr(write(tmp_path / "c", X.astype(complex)))
    with pytest.raises(SourceError, match="features must be numbers"):
        open_zarr(write(tmp_path / "d", X.astype("U3"), zarr_format=2))
    with pytest.raises(SourceError, match=r"0 feature\(s\)"):
        open_zarr(write(tmp_path / "e", X[:, :0], chunks=(10, 1)))
    with pytest.raises(SourceError, match=r"0 sample\(s\)"):
        open_zarr(write(tmp_path / "f", X[:0], None))
    big = open_zarr(write(tmp_path / "g", np.full((N, 7), 2**53 + 2)))
    with pytest.raises(SourceError, match="array /X, rows 0 to 10: integer .* is beyond 2"):
        big.open(NAMES, None, None, np.dtype("f8")).read(0, 5)
    zarr.open_group(path, mode="a").create_group("S").attrs["encoding-type"] = "csc_matrix"
    with pytest.raises(SourceError, match="X is csc_matrix; .* store it as csr_matrix"):
        open_zarr(path, features="S")


PEAK = """
import sys
import numpy as np
from streamlearn.data.memory.opening import open_arrays
from streamlearn.data.zarr.opening import open_zarr

def peak():
    return next(int(l.split()[1]) << 10 for l in open("/proc/self/status") if l.startswith("VmHWM"))

kind, path = sys.argv[1:]
store = open_zarr(path) if kind == "zarr" else open_arrays(np.load(path, mmap_mode="r"))
names, rows = [f"x{j}" for j in range(50)], 16384
reader, before = store.open(names, None, None, np.dtype("f4")), peak()
units = store.boundaries().tolist()
for begin, end in zip(units, units[1:]):
    for start in range(begin, end, rows):
        reader.read(start, min(start + rows, end))
print(peak() - before, store.overhead_nbytes(names, rows) + rows * 200)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("zarr", {"chunks": (40_000, 50)}),
        ("zarr", {"chunks": (2_000, 50)}),
        ("zarr", {"chunks": (40_000, 10), "compressors": None}),
        ("zarr", {"chunks": (4_000, 50), "shards": (80_000, 50)}),
        ("memmap", {}),
    ],
)
def test_peak_memory_is_what_the_overhead_says(tmp_path, kind, options):
    data = np.random.default_rng(0).integers(0, 999, (400_000, 50)).astype(np.float32)
    path = tmp_path / "x.npy"
    if kind == "zarr":
        zarr.create_array(path, data=data, **options)
    else:
        np.save(path, data)
    run = [sys.executable, "-c", PEAK, kind, str(path)]
    peak, planned = map(int, subprocess.run(run, check=True, capture_output=True).stdout.split())
    assert peak <= planned + (2 << 20)  # 2 MiB: zarr's threads and event loop, once a process


FORMATS = {2: ".zarray", 3: "zarr.json"}


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("array", ["X", "y"])
@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"zarr_format": 3}'])
def test_damaged_metadata_is_refused_by_our_error(tmp_path, zarr_format, array, text):
    path = write(tmp_path / "damaged.zarr", zarr_format=zarr_format)
    (tmp_path / "damaged.zarr" / array / FORMATS[zarr_format]).write_bytes(text)
    with pytest.raises(SourceError, match=r"damaged\.zarr"):
        open_zarr(path, target="y")


def test_names_that_are_no_list_are_refused_by_our_error(tmp_path):
    path = write(tmp_path / "t.zarr")
    zarr.open_group(path).attrs["feature_names"] = 7
    with pytest.raises(SourceError, match=r"t\.zarr cannot be opened"):
        open_zarr(path)


def test_codes_beyond_the_categories_are_refused_by_place(tmp_path):
    path = write(tmp_path / "t.zarr", y=None)
    column = zarr.open_group(path).create_group("label")
    column.attrs["encoding-type"] = "categorical"
    column.create_array("codes", data=np.full(N, 2, np.int8), chunks=(17,))
    column.create_array("categories", data=np.array([1.0, 2.0]))
    store = open_zarr(path, target="label")
    with pytest.raises(SourceError, match="rows 0 to 9: code 2 of 2 categories"):
        next(rows_in_steps(store, NAMES, 9, "label"))
