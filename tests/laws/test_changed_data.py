"""No model of a mixture: whatever kind of table changes, and whenever, the fit gives the model of
the old table, that of the new one, or a refusal by name.

Each kind of store that can change is written twice, with footers, sizes and metadata alike, so
that nothing but the versions of its files tells the two apart.  Sums of whole numbers are the
model: they are exact, so that one row of the other table shows.
"""

import os
import random
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import streamlearn as sl
from streamlearn.data.memory.opening import open_arrays
from streamlearn.data.open import FORMATS, dataset_of
from streamlearn.data.reader import DatasetReader
from streamlearn.data.source import Csr
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import make_plan
from streamlearn.engine.run import Run
from streamlearn.engine.scratch.materialise import materialised
from streamlearn.errors import StreamlearnError
from streamlearn.estimator.fitting import identity
from streamlearn.passes.fold import Fold

N, P, PASSES, ROWS = 600, 3, 3, 50
OLD, NEW = 0, 16
"""What is added to every cell of the old and of the new table."""


def rows(shift):
    rng = np.random.default_rng(1)
    X = rng.integers(1, 10, (N, P)).astype(np.float32) + shift
    return X, rng.integers(1, 10, N).astype(np.float32) + shift


def write_parquet(path, shift, part=slice(None)):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = rows(shift)
    columns = {f"x{j}": X[part, j] for j in range(P)} | {"y": y[part]}
    plain = {"use_dictionary": False, "write_statistics": False, "compression": "NONE"}
    pq.write_table(pa.table(columns), path, row_group_size=100, **plain)


def write_file(folder, shift):
    write_parquet(folder / "t.parquet", shift)


def write_files(folder, shift):
    for i in range(4):
        (folder / f"k={i}").mkdir(exist_ok=True)
        write_parquet(folder / f"k={i}" / "part.parquet", shift, slice(150 * i, 150 * i + 150))


def write_zarr(folder, shift, **how):
    import zarr

    X, y = rows(shift)
    group = zarr.open_group(folder / "t.zarr", mode="w", zarr_format=how.pop("zarr_format", 3))
    for name, array in (("X", X), ("y", y)):
        more = {key: value[: array.ndim] for key, value in how.items()}
        chunks = (50, 2)[: array.ndim]
        group.create_array(name, data=array, chunks=chunks, compressors=None, **more)


def write_anndata(folder, shift):
    import zarr

    X, y = rows(shift)
    group = zarr.open_group(folder / "t.zarr", mode="w", zarr_format=3)
    group.attrs["encoding-type"] = "anndata"
    csr = group.create_group("X")
    csr.attrs.update({"encoding-type": "csr_matrix", "shape": [N, P]})
    parts = {"data": X.ravel(), "indices": np.tile(np.arange(P), N), "indptr": P * np.arange(N + 1)}
    for name, array in parts.items():
        csr.create_array(name, data=array, chunks=(100,), compressors=None)
    group.create_group("obs").create_array("label", data=y, chunks=(100,), compressors=None)


def write_zip(folder, shift):
    import zarr

    X, y = rows(shift)
    store = zarr.storage.ZipStore(folder / "t.zarr.zip", mode="w")
    group = zarr.open_group(store, mode="w")
    group.create_array("X", data=X, chunks=(50, 2), compressors=None)
    group.create_array("y", data=y, chunks=(50,), compressors=None)
    store.close()


def open_zip(folder):
    import zarr

    store = zarr.storage.ZipStore(folder / "t.zarr.zip", mode="r")
    return sl.open_dataset(zarr.open_group(store, mode="r"), target="y", chunk_rows=ROWS)


def write_map(folder, shift, order="C"):
    X, y = rows(shift)
    np.save(folder / "X.npy", np.asarray(X, order=order))
    np.save(folder / "y.npy", y)


def open_map(folder, y="y.npy"):
    X, y = (np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    store = open_arrays(X, y)
    return dataset_of(store, "y", None, [f"x{j}" for j in range(P)], ROWS)


def open_columns_of_a_map(folder):
    """Columns that are no run of the file: read through the mapping."""
    X, y = (np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    store = open_arrays(X[:, ::2], y)
    return dataset_of(store, "y", None, ["x0", "x1"], ROWS)


def open_path(name, folder, target="y"):
    return sl.open_dataset(str(folder / name), target=target, chunk_rows=ROWS)


def url(folder):
    return f"memory://changed{folder.parent}/{folder.name}"


def upload(folder):
    """What lies in the folder, at its URL."""
    import fsspec

    fs = fsspec.filesystem("memory")
    for path in files(folder):
        content = path.read_bytes()
        there = f"/changed{path}"
        if not fs.exists(there) or fs.cat_file(there) != content:
            fs.pipe_file(there, content)


def open_url(name, folder):
    upload(folder)
    return sl.open_dataset(f"{url(folder)}/{name}", target="y", chunk_rows=ROWS)


def open_dask(folder):
    import dask.array as da
    import zarr

    group = zarr.open_group(folder / "t.zarr", mode="r")
    X, y = (da.from_zarr(group[name]) for name in ("X", "y"))
    from streamlearn.data.dask.store import open_dask as opened

    return dataset_of(opened(X, y), "y", None, [f"x{j}" for j in range(P)], ROWS)


@dataclass(frozen=True)
class Kind:
    """A kind of table that can change."""

    format: str
    write: Any
    open: Any
    remote: bool = False
    """Whether a change is uploaded."""


KINDS = {
    "parquet": Kind("parquet", write_file, partial(open_path, "t.parquet")),
    "hive": Kind("parquet", write_files, partial(open_path, "")),
    "glob": Kind("parquet", write_files, partial(open_path, "*/*.parquet")),
    "parquet url": Kind("parquet", write_files, partial(open_url, "*/*.parquet"), remote=True),
    "zarr 3": Kind("zarr", write_zarr, partial(open_path, "t.zarr")),
    "zarr 2": Kind("zarr", partial(write_zarr, zarr_format=2), partial(open_path, "t.zarr")),
    "zarr shards": Kind("zarr", partial(write_zarr, shards=(200, 4)), partial(open_path, "t.zarr")),
    "zarr url": Kind("zarr", write_zarr, partial(open_url, "t.zarr"), remote=True),
    "zarr zip": Kind("zarr", write_zip, open_zip),
    "anndata": Kind("zarr", write_anndata, partial(open_path, "t.zarr", target="obs/label")),
    "memory map": Kind("array", write_map, open_map),
    "memory map by columns": Kind("array", partial(write_map, order="F"), open_map),
    "view of a memory map": Kind("array", write_map, open_columns_of_a_map),
    "dask": Kind("dask", write_zarr, open_dask),
}
ONE_READ = ("dask",)
"""Kinds that are read once and written to scratch: what changes later is not seen, nor needed.

Its one read is the user's graph, which may read a file while it changes: only dask could tell.
"""
MOMENTS = ("before", "during", "between", "kill", "kill during", "after")
OFTEN = ("during", "between", "kill")
"""Moments that every run of the tests tries."""
OUTCOMES = {"old", "new", "refused"}


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def change(kind, folder, rng):
    """Some or all files become those of the new table, by one of the ways in which files change."""
    other = folder.parent / "new"
    shutil.rmtree(other, ignore_errors=True)
    other.mkdir()
    kind.write(other, NEW)
    pairs = [(folder / new.relative_to(other), new) for new in files(other)]
    pairs = [(old, new) for old, new in pairs if old.read_bytes() != new.read_bytes()]
    if rng.random() < 0.4:
        pairs = rng.sample(pairs, rng.randint(1, len(pairs)))
    in_place, old_time = rng.random() < 0.6, rng.random() < 0.5
    for old, new in pairs:
        facts = os.stat(old)
        content = new.read_bytes()
        if rng.random() < 0.2:  # half-written
            content = content[: len(content) // 2] + old.read_bytes()[len(content) // 2 :]
        if in_place:
            with open(old, "r+b") as file:
                file.write(content)
        else:
            new.write_bytes(content)
            os.replace(new, old)
        if old_time:
            os.utime(old, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    if kind.remote:
        upload(folder)


def start():
    return np.zeros(2)


def add_rows(state, chunk):
    X = chunk.X.data if isinstance(chunk.X, Csr) else chunk.X
    return state + (X.sum(dtype=np.float64), np.sum(chunk.y, dtype=np.float64))


def add(left, right):
    return left + right


SUMS = Fold(start, add_rows, add, np.copy)


class Killed(BaseException):
    """The end of a process, as far as its checkpoint can tell."""


def fit(kind, folder, checkpoint=None, hook=lambda moment: None):
    """The sums of every read: the model."""
    opened = kind.open(folder)
    hook("before")
    with materialised(opened) as dataset:
        plan = make_plan(dataset, [Needs("read", 1000)], budget=1 << 30, threads=2)
        known = identity(sl.AdditiveRegressor(), dataset, None)
        with Run(dataset, plan, name="sums", identity=known, checkpoint=checkpoint) as run:
            if run.finished is not None:
                return run.finished
            model = []
            for i in range(PASSES):
                hook(f"between {i}")
                model.append(run.fold(SUMS, name=f"sums-{i}").tolist())
            run.finish(model)
            return model


def trial(kind, moment, folder, rng, monkeypatch):
    """What came of a change at this moment: ``old``, ``new`` or ``refused``."""
    table = folder / "table"
    table.mkdir()
    kind.write(table, OLD)
    if kind.remote:
        upload(table)
    old = fit(kind, table)
    checkpoint = folder / "checkpoint"
    at = {
        "before": "before",
        "between": f"between {rng.randint(1, PASSES - 1)}",
        "kill": f"between {rng.randint(1, PASSES - 1)}",
    }.get(moment)
    chunk = rng.randrange(PASSES * 12) if "during" in moment else -1
    done = []

    def now():
        done.append(True)
        if moment.startswith("kill"):
            raise Killed
        change(kind, table, rng)

    def hook(here):
        if here == at and not done:
            now()

    with monkeypatch.context() as patch:
        read, seen = DatasetReader.read, []

        def counted(self, ref):
            seen.append(ref)
            if len(seen) == chunk + 1 and not done:
                now()
            return read(self, ref)

        patch.setattr(DatasetReader, "read", counted)
        how = "synchronous" if moment.startswith("kill") or rng.random() < 0.5 else "threads"
        with sl.config_context(scheduler=how):
            try:
                try:
                    model = fit(kind, table, checkpoint, hook)
                    if moment == "after" or (moment == "kill during" and not done):
                        change(kind, table, rng)
                        model = fit(kind, table, checkpoint)
                except Killed:
                    change(kind, table, rng)
                    model = fit(kind, table, checkpoint)
            except StreamlearnError as error:
                said = re.search("changed|being written|data.rows_hash: ", str(error))
                return "refused" if said else f"refused otherwise: {error}"
    if model == old:
        return "old"
    assert model[1:] == model[:-1], f"a mixture of two tables: {model}"
    kind_of_new = fit(kind, table)
    assert model == kind_of_new, f"neither table: {model}, {kind_of_new}"
    return "new"


def test_every_format_has_a_kind():
    assert {kind.format for kind in KINDS.values()} == {one.name for one in FORMATS}


@pytest.mark.parametrize(
    "moment",
    [pytest.param(one, marks=[pytest.mark.slow] * (one not in OFTEN)) for one in MOMENTS],
)
@pytest.mark.parametrize("name", KINDS)
def test_no_model_is_made_of_a_mixture(name, moment, tmp_path, monkeypatch):
    rng = random.Random(f"{name} {moment}")
    outcome = trial(KINDS[name], moment, tmp_path, rng, monkeypatch)
    assert outcome in OUTCOMES
    if name not in ONE_READ and moment not in ("during", "kill during"):
        assert outcome == "refused"


@pytest.mark.slow
@pytest.mark.turns(10, 0)
@pytest.mark.parametrize("dozen", range(5))
@pytest.mark.parametrize("name", KINDS)
def test_many_changes(name, dozen, tmp_path, monkeypatch, record_property):
    counts = Counter()
    for i in range(12 * dozen, 12 * dozen + 12):
        moment = MOMENTS[i % len(MOMENTS)]
        folder = tmp_path / str(i)
        folder.mkdir()
        counts[trial(KINDS[name], moment, folder, random.Random(i), monkeypatch)] += 1
        shutil.rmtree(folder)
    print(name, dict(counts))
    record_property("outcomes", dict(counts))
    assert counts.keys() <= OUTCOMES


@pytest.mark.parametrize("added", [True, False])
@pytest.mark.parametrize("name", ["hive", "glob"])
def test_files_that_come_or_go_are_named(name, added, tmp_path):
    kind = KINDS[name]
    write_files(tmp_path, OLD)
    other = tmp_path / "k=4" / "part.parquet"
    other.parent.mkdir()
    if not added:
        write_parquet(other, OLD, slice(10))
    checkpoint = tmp_path.parent / f"{tmp_path.name}-checkpoint"
    fit(kind, tmp_path, checkpoint)
    write_parquet(other, OLD, slice(10)) if added else other.unlink()
    with pytest.raises(StreamlearnError, match=r"data.files: .*k=4/part.parquet"):
        fit(kind, tmp_path, checkpoint)


def test_a_copy_goes_on_if_it_is_said_to_be_one(tmp_path):
    for name in ("parquet", "zarr 3", "memory map"):
        kind, folder = KINDS[name], tmp_path / name
        (folder / "a").mkdir(parents=True)
        kind.write(folder / "a", OLD)
        model = fit(kind, folder / "a", folder / "checkpoint")
        shutil.copytree(folder / "a", folder / "b", copy_function=shutil.copyfile)
        with pytest.raises(StreamlearnError, match=r"changed since checkpoint .*trust_copies=True"):
            fit(kind, folder / "b", folder / "checkpoint")
        with sl.config_context(trust_copies=True):
            assert fit(kind, folder / "b", folder / "checkpoint") == model
