"""Outputs that would destroy what is no earlier output: every writer refuses them by name."""

import ast
import os
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from click.testing import CliRunner
from estimator.ridge import RidgeClassifier
from fsspec.implementations.local import LocalFileSystem

import streamlearn as sl
from streamlearn import demo
from streamlearn.cli import main
from streamlearn.data.store import Store
from streamlearn.data.write.sink import Sink, open_sink
from streamlearn.estimator.at_risk import write_ordinal, write_survival

PACKAGE = Path(sl.__file__).parent
COLUMNS = [("x", "float64")]


def snapshot(folder):
    """Every file below with its bytes, every link and every empty folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else os.path.islink(path)
        for path in sorted(folder.rglob("*"))
    }


def table(path, n=40):
    rng = np.random.default_rng(0)
    columns = {"a": rng.random(n), "b": rng.random(n), "y": np.arange(n) % 2}
    columns |= {
        "time": 3 * rng.random(n),
        "grade": np.array(["low", "mid", "top"])[np.arange(n) % 3],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(autouse=True)
def budget():
    """Enough to put a zarr group together, whatever else the machine does."""
    with sl.config_context(memory_budget="128MiB"):
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    file = table(tmp_path_factory.mktemp("models") / "t.parquet")
    rows = partial(sl.open_dataset, file, features=["a", "b"])
    hazard = sl.AdditiveRegressor("poisson", exposure="exposure", n_bases=4, interactions=0)
    timed = sl.open_dataset(file, target="y", features=["a", "b", "time"])
    steps = rows(target="grade").ordinal_steps(["low", "mid", "top"])
    return {
        "plain": RidgeClassifier().fit(rows(target="y")),
        "survival": hazard.fit(timed.at_risk("time", [1, 2])),
        "ordinal": sl.AdditiveClassifier(n_bases=4, interactions=0).fit(steps),
    }


def predicted(models, source, path):
    models["plain"].predict_to(source, path, overwrite=True)


def survival(models, source, path):
    write_survival(models["survival"], source, [1, 2], str(path), overwrite=True)


def ordinal(models, source, path):
    write_ordinal(models["ordinal"], source, ["low", "mid", "top"], str(path), overwrite=True)


def as_parquet(models, source, path):
    rows = sl.open_dataset(source, features=["a", "b"], target="y").split(0.5)[0]
    rows.to_parquet(path, overwrite=True)


def as_zarr(models, source, path):
    sl.open_dataset(source, features=["a", "b"], target="y").to_zarr(path, overwrite=True)


def steps_as_parquet(models, source, path):
    rows = sl.open_dataset(source, features=["a", "b"], target="grade")
    rows.ordinal_steps(["low", "mid", "top"]).to_parquet(path, overwrite=True)


WRITERS = {
    predicted: "write_answers",
    survival: "write_rows",
    ordinal: "write_rows",
    as_parquet: "write_parquet",
    as_zarr: "write_zarr",
    steps_as_parquet: "write_parquet",
}
"""Writer -> the function of the package that opens its sink."""


def callers(name):
    """(function, node) of every call of `name` in the package, but for its own definition."""
    texts = [file.read_text() for file in PACKAGE.rglob("*.py")]
    for text in texts:
        for function in ast.walk(ast.parse(text)) if f"{name}(" in text else ():
            if isinstance(function, ast.FunctionDef) and function.name != name:
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                        yield function, node


def test_every_function_that_opens_a_sink_is_among_the_writers():
    found = {f.name for name in ("open_sink", "writing") for f, _ in callers(name)}
    assert found - {"writing", "write_data"} == set(WRITERS.values())


def test_every_sink_is_a_context_that_removes_what_is_half_written():
    for function, call in callers("open_sink"):
        opened = [
            item.context_expr
            for block in ast.walk(function)
            if isinstance(block, ast.With)
            for item in block.items
        ]
        assert call in opened, function.name


@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_takes_what_it_reads(tmp_path, models, writer, monkeypatch):
    """The source, what holds it, what lies in it, by links too; nothing is changed."""
    folder = tmp_path / "data"
    file = table(folder / "deep" / "t.parquet")
    (tmp_path / "link").symlink_to(folder)
    cases = [
        (file, file, " is "),
        (file, folder / "deep", " holds "),
        (file, folder, " holds "),
        (file, tmp_path / "link", " holds "),
        (tmp_path / "link" / "deep" / "t.parquet", file, " is "),
        (folder, folder / "out", " lies in "),
        (folder, tmp_path / "link" / "deep" / "out", " lies in "),
        (folder / "deep" / "*.parquet", file, " is "),
        ([file], f"file://{file}", " is "),
    ]
    before = snapshot(tmp_path)
    monkeypatch.setattr(Sink, "write", lambda *args: pytest.fail("rows were written"))
    for source, output, how in cases:
        source = list(map(str, source)) if isinstance(source, list) else str(source)
        with pytest.raises(ValueError, match=f"{how}.*, which is read; choose a path away"):
            writer(models, source, output)
        assert snapshot(tmp_path) == before


@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_replaces_what_was_not_written_here(tmp_path, models, writer, monkeypatch):
    """A file, a folder of the user's, one of Spark's, a store of zarr's, the current folder."""
    source = str(table(tmp_path / "in" / "t.parquet"))
    there = tmp_path / "there"
    there.mkdir()
    (there / "file.parquet").write_bytes(b"rows")
    (there / "model.slm").write_bytes(b"weights")
    (there / "mine" / "photos").mkdir(parents=True)
    (there / "mine" / "notes").write_text("precious")
    sl.open_dataset(source, features=["a"]).to_parquet(there / "added")
    (there / "added" / "notes").write_text("precious")
    sl.open_dataset(source, features=["a"]).to_parquet(there / "unfinished")
    (there / "unfinished" / "_SUCCESS").unlink()
    (there / "spark").mkdir()
    (there / "spark" / "_SUCCESS").touch()
    (there / "spark" / "part-00000-3f2a.snappy.parquet").write_bytes(b"rows")
    zarr.open_group(there / "other.zarr", mode="w", zarr_format=3)["X"] = np.ones((3, 2))
    zarr.open_group(there / "old.zarr", mode="w", zarr_format=2)["X"] = np.ones((3, 2))
    sl.open_dataset(source, features=["a"]).to_zarr(there / "added.zarr")
    (there / "added.zarr" / "notes").write_text("precious")
    before = snapshot(tmp_path)
    for output in there.iterdir():
        with pytest.raises(FileExistsError, match="is no earlier output.*remove it yourself, or"):
            writer(models, source, output)
        assert snapshot(tmp_path) == before, output
    monkeypatch.chdir(there / "mine" / "photos")
    for output in (".", "..", there / "mine"):
        with pytest.raises(ValueError, match="is the current folder or holds it.*choose a name in"):
            writer(models, source, output)
        assert snapshot(tmp_path) == before, output


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", ["out", "out.parquet", "out.zarr"])
def test_every_earlier_output_may_be_replaced(tmp_path, models, writer, name):
    """Also through a link, which stays, and an empty folder."""
    source = str(table(tmp_path / "in" / "t.parquet"))
    (tmp_path / name).mkdir()
    for _ in range(2):
        writer(models, source, tmp_path / name)
    there = snapshot(tmp_path / name)
    assert {"_SUCCESS", "zarr.json"} & set(there)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / name).symlink_to(tmp_path / name)
    writer(models, source, tmp_path / "link" / name)
    assert (tmp_path / "link" / name).is_symlink()
    assert snapshot(tmp_path / name) == there
    assert sorted(os.listdir(tmp_path)) == sorted(["in", "link", name])


def test_every_store_says_where_its_rows_lie(tmp_path):
    """A store of rows in files that says nothing of them would let them be replaced."""
    file = table(tmp_path / "t.parquet")
    sl.open_dataset(file, features=["a", "b"]).to_zarr(tmp_path / "t.zarr")
    np.save(tmp_path / "t.npy", np.ones((4, 2)))
    mapped = np.load(tmp_path / "t.npy", mmap_mode="r")
    opened = {
        "ParquetStore": (sl.open_dataset(file), file),
        "ZarrStore": (sl.open_dataset(tmp_path / "t.zarr"), tmp_path / "t.zarr"),
        "ArrayStore": (sl.open_dataset(mapped), tmp_path / "t.npy"),
        "RowsAtRisk": (
            sl.open_dataset(file, target="grade").ordinal_steps(["low", "mid", "top"]),
            file,
        ),
    }
    for name, (data, place) in opened.items():
        assert type(data.store).__name__ == name
        assert str(place) in data.store.locations(), name
    from streamlearn.data.dask.store import DaskStore
    from streamlearn.data.memory.stream import StreamStore

    unsaid = {DaskStore, StreamStore}  # they are made by others, who do not tell
    for kind in _subclasses(Store):
        if kind.__module__.startswith("streamlearn.data") and kind not in unsaid:
            told = any("locations" in vars(one) for one in kind.__mro__ if one is not Store)
            assert told or kind.__name__ == "ParquetFiles", kind


def _subclasses(cls):
    return {cls}.union(*map(_subclasses, cls.__subclasses__())) - {Store}


def test_what_is_put_there_while_rows_are_written_is_kept(tmp_path):
    with open_sink(
        tmp_path / "out", columns=COLUMNS, format="parquet", reads=(), overwrite=True
    ) as sink:
        sink.write(0, 0, {"x": np.ones(3)})
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "notes").write_text("precious")
        with pytest.raises(FileExistsError, match="is no earlier output.*'notes'"):
            sink.commit(3)
        sink.abort()
    assert snapshot(tmp_path) == {"out": False, "out/notes": b"precious"}


def written(path, n, column="x", **options):
    with open_sink(path, columns=COLUMNS, format="parquet", reads=(), **options) as sink:
        sink.write(0, 0, {column: np.ones(n)})
        sink.commit(n)


def test_an_old_output_that_cannot_be_removed_is_said_to_lie_there(tmp_path, monkeypatch):
    written(tmp_path / "out", 2)

    def refuse(self, path, recursive=False):
        raise ValueError("Cannot delete it")

    monkeypatch.setattr(LocalFileSystem, "rm", refuse)
    with pytest.raises(OSError, match="is written, but what it replaced could not be") as caught:
        written(tmp_path / "out", 3, overwrite=True)
    [left] = [path for path in tmp_path.iterdir() if path.name != "out"]
    assert str(left) in str(caught.value)
    assert pq.read_table(left).num_rows == 2
    assert pq.read_table(tmp_path / "out").num_rows == 3


def test_an_old_output_comes_back_if_the_new_one_cannot_take_its_name(tmp_path, monkeypatch):
    written(tmp_path / "out", 2)
    before, rename = snapshot(tmp_path), os.rename

    def fail(a, b):
        if "-old" not in a + b:
            raise OSError(28, "No space left on device")
        rename(a, b)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="No space left on device"):
        written(tmp_path / "out", 3, overwrite=True)
    assert snapshot(tmp_path) == before


def test_a_folder_of_parts_that_stays_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(Sink, "abort", lambda self: os.rmdir(tmp_path))
    with pytest.raises(ValueError, match="columns .* are not those") as caught:
        written(tmp_path / "out", 3, column="y")
    [left] = tmp_path.iterdir()
    assert f"{left} could not be removed" in caught.value.__notes__[0]


def test_the_demo_leaves_nothing_half_written(tmp_path, monkeypatch):
    def fail(self, *args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Sink, "commit", fail)
    with pytest.raises(OSError, match="No space left on device"):
        demo.write_data(str(tmp_path / "data.parquet"), 100)
    assert not os.listdir(tmp_path)
    with pytest.raises(OSError, match="No space left on device"):
        written(tmp_path / "out", 2)
    assert not os.listdir(tmp_path)


def test_the_shell_keeps_the_model_it_reads(tmp_path, models, monkeypatch):
    """predict with --overwrite, for a model that is, or lies in, the output."""
    source = str(table(tmp_path / "in" / "t.parquet"))
    sl.open_dataset(source, features=["a"]).to_parquet(tmp_path / "out")
    for more, kind in (
        ([], "plain"),
        (["--survival", "1,2"], "survival"),
        (["--ordinal-steps", "low,mid,top"], "ordinal"),
    ):
        model = tmp_path / "out" / "m.slm"
        sl.save(models[kind], model)
        before = snapshot(tmp_path)
        for output, how in ((model, "is"), (tmp_path / "out", "holds")):
            line = ["predict", str(model), source, "-o", str(output), "--overwrite", *more]
            result = CliRunner().invoke(main, line)
            assert result.exit_code == 1, result.output
            assert f"the output {output} {how} {model}, which is read" in result.stderr
            assert snapshot(tmp_path) == before
