"""What the commands refuse before they do any work, in one sentence that says what to give."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from estimator.ridge import RidgeClassifier, RidgeRegressor

import streamlearn as sl
from streamlearn import demo
from streamlearn.cli import main
from streamlearn.cli.serving import WHAT
from streamlearn.data.reader import DatasetReader
from streamlearn.data.write.sink import Sink


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table and a model of each kind of answers."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    columns = {"a": rng.random(300), "b": rng.random(300), "w": np.ones(300)}
    columns["y"] = (columns["a"] > 0.5).astype(int)
    pq.write_table(pa.table(columns), folder / "t.parquet")
    rows = sl.open_dataset(folder / "t.parquet", target="y", features=["a", "b"])
    few = {"n_bases": 4, "interactions": 0}
    for name, model in {
        "additive": sl.AdditiveClassifier(**few),
        "covariance": sl.AdditiveRegressor(covariance=True, **few),
        "hinge": sl.AdditiveClassifier(loss="hinge", tol=0.1, **few),
        "regressor": sl.AdditiveRegressor(**few),
        "mixture": sl.SVMMixtureClassifier(n_components=2, max_passes=4),
        "supersparse": sl.SuperSparseClassifier(n_prototypes=3),
        "ridge": RidgeClassifier(),
        "ridge_regressor": RidgeRegressor(),
    }.items():
        sl.save(model.fit(rows), folder / f"{name}.slm")
    return folder


MODELS = (
    *("additive", "covariance", "hinge", "regressor", "mixture", "supersparse"),
    *("ridge", "ridge_regressor"),
)


@pytest.fixture(autouse=True)
def budget():
    with sl.config_context(memory_budget="128MiB"):
        yield


@pytest.fixture
def unread(monkeypatch):
    """No row is read, and none is written."""
    monkeypatch.setattr(DatasetReader, "__init__", lambda *args: pytest.fail("rows were read"))
    monkeypatch.setattr(Sink, "write", lambda *args: pytest.fail("rows were written"))


def refused(*args, code=1):
    """The one line that a refused command says."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    if code == 1:
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("error: ")
        assert "[Errno" not in result.stderr
    return result.stderr


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("what", WHAT)
def test_an_answer_that_a_model_does_not_have_is_one_line(made, tmp_path, name, what):
    model, out = made / f"{name}.slm", tmp_path / "out"
    line = ["predict", str(model), str(made / "t.parquet"), "-o", str(out), "--what", what]
    result = CliRunner().invoke(main, line)
    if result.exit_code == 0:
        assert pq.read_table(out).num_rows == 300
    else:
        assert refused(*line)
        assert not os.listdir(tmp_path)


def test_some_answers_are_refused_and_some_are_not(made, tmp_path):
    """So the walk above has both."""
    base = ("predict", made / "regressor.slm", made / "t.parquet", "-o", tmp_path / "out")
    for what, why in (
        ("probability", "predicts numbers, not probabilities"),
        ("uncertainty", "needs the covariance of the coefficients"),
    ):
        assert why in refused(*base, "--what", what)
    base = ("predict", made / "supersparse.slm", made / "t.parquet", "-o", tmp_path / "out")
    assert "is no sum of terms" in refused(*base, "--what", "explanation")


def test_a_fault_of_the_program_is_no_line(made, tmp_path, monkeypatch):
    """An attribute that an object of ours lacks is shown whole, where it was asked for."""
    monkeypatch.setattr(RidgeClassifier, "predict_to", lambda *args, **more: np.ones(3).nothing)
    line = ["predict", str(made / "ridge.slm"), str(made / "t.parquet"), "-o", "x"]
    result = CliRunner().invoke(main, line)
    assert isinstance(result.exception, AttributeError)


def file_writers(made):
    """Of every command with an output that is one file: the line without the output."""
    model, table = made / "additive.slm", made / "t.parquet"
    return {
        "fit": ["fit", table, "-t", "y", "--features", "a,b", "--model", "AdditiveRegressor"],
        "compress": ["compress", model, table, "-n", "2"],
        "report": ["report", model, table, "-t", "y"],
    }


def test_every_command_with_an_output_is_walked(made):
    with_output = {
        name
        for name, command in main.commands.items()
        if "output" in {p.name for p in command.params}
    }
    assert with_output == {*file_writers(made), "predict", "plot"}


@pytest.mark.parametrize("name", ["fit", "compress", "report"])
def test_a_file_that_cannot_be_written_is_refused_first(made, tmp_path, monkeypatch, unread, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    line = file_writers(made)[name]
    for output, told in (
        ("there", "the output there is a folder; give the name of a file"),
        (".", "the output . is a folder; give the name of a file"),
        ("new/", "the output new/ is a folder; give the name of a file"),
        ("none/x", "none for the output none/x; make it, or choose another path"),
        ("/dev/null", "is a pipe, socket or device; give the name of a file"),
        ("/proc/x.slm", "/proc takes no new file"),
    ):
        assert told in refused(*line, "-o", output), output
    assert os.listdir(tmp_path) == ["there"]


@pytest.mark.parametrize("name", ["fit", "compress", "report"])
def test_no_file_that_is_read_is_replaced(made, unread, name):
    line = file_writers(made)[name]
    own = [word for word in map(str, line) if word.endswith((".slm", ".parquet"))]
    for read in own:
        before = Path(read).read_bytes()
        assert "is a file that is read; choose another name" in refused(*line, "-o", read)
        assert Path(read).read_bytes() == before


def test_python_refuses_such_a_file_too(made, tmp_path, unread):
    model = sl.load(made / "additive.slm")
    (tmp_path / "file").touch()
    for write in (
        lambda path: sl.save(model, path),
        lambda path: model.report(made / "t.parquet", "y", output=path),
    ):
        with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
            write(tmp_path)
        with pytest.raises(FileNotFoundError, match="no folder .*; make it, or choose another"):
            write(tmp_path / "no" / "x")
        with pytest.raises(OSError, match="takes no new file .*; choose a folder you may write"):
            write("/proc/x.slm")
    with pytest.raises(sl.SourceError, match="cannot open 'nothing://x'"):
        sl.save(model, "nothing://x")


def test_a_folder_of_pictures_that_cannot_be_made_is_refused_first(made, tmp_path, unread):
    model, table = made / "additive.slm", made / "t.parquet"
    (tmp_path / "file").touch()
    for line in (
        ["plot", model, "--data", table, "-t", "y", "-o"],
        ["plot", model, "--compare", model, "-o"],
        ["demo", "--rows", "1000", "--plots"],
        ["demo", "--rows", "1000", "--plots", tmp_path, "--folder"],
    ):
        assert "/proc takes no new file" in refused(*line, "/proc/zz"), line
        for output in (tmp_path / "file", tmp_path / "file" / "deeper"):
            assert "cannot be a folder, since" in refused(*line, output), line
    assert os.listdir(tmp_path) == ["file"]


def model_lines(table, out):
    """Of every command with a MODEL_FILE: its line without the file, and the flags of columns."""
    return {
        "predict": ([table, "-o", out], []),
        "evaluate": ([table, "-t", "y"], ["-t", "-w"]),
        "compress": ([table, "-n", "2", "-o", out], ["-w"]),
        "plot": (["--data", table, "-t", "y", "-o", out], ["-t"]),
        "report": ([table, "-t", "y", "-o", out], ["-t", "-w"]),
    }


def test_every_command_with_a_model_is_walked():
    lines = model_lines("t", "o")
    for name, command in main.commands.items():
        params = {p.name for p in command.params}
        assert ("model_file" in params) == (name in lines)
        if name in lines:
            flags = {"-t": "target", "-w": "weight"}
            assert {flags[flag] for flag in lines[name][1]} == params & {*flags.values()}


@pytest.mark.parametrize("name", model_lines("t", "o"))
def test_a_model_file_that_is_not_there_is_said(made, tmp_path, name):
    line, _ = model_lines(made / "t.parquet", tmp_path / "out")[name]
    for missing in (tmp_path / "none.slm", made / "t.parquet" / "m.slm"):
        told = refused(name, missing, *line)
        assert f"no model file {missing}; pass the file that sl.save, or fit" in told
    assert "is a folder, expected a file" in refused(name, made, *line)
    with pytest.raises(FileNotFoundError, match="no model file .*none.slm; pass the file"):
        sl.load(tmp_path / "none.slm")


@pytest.mark.parametrize("name", model_lines("t", "o"))
def test_a_column_of_the_model_is_no_target_or_weight(made, tmp_path, name, unread):
    line, flags = model_lines(made / "t.parquet", tmp_path / "out")[name]
    for flag in flags:
        told = refused(name, made / "additive.slm", *line, flag, "a")
        assert "the model was trained on the column 'a'; name another column, or fit with" in told


def test_a_demo_of_too_few_rows_is_a_wrong_use(tmp_path):
    for rows in ("0", "-5", "999"):
        line = ("demo", "--rows", rows, "--folder", tmp_path, "--plots", tmp_path)
        assert "Invalid value for '--rows'" in refused(*line, code=2)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["data.parquet", "small.parquet", "model.slm"])
def test_a_demo_keeps_what_lies_in_its_folder(tmp_path, name, monkeypatch):
    (tmp_path / name).write_text("precious")
    line = ["demo", "--rows", "1000", "--folder", tmp_path, "--plots", tmp_path]
    assert f"{name} exists already; pass --overwrite, or another" in refused(*line)
    assert os.listdir(tmp_path) == [name]
    if name != "model.slm":
        assert "is no earlier output" in refused(*line, "--overwrite")
    assert (tmp_path / name).read_text() == "precious"


@pytest.mark.slow
def test_the_smallest_demo_runs_twice_in_its_folder(tmp_path):
    line = ["demo", "--rows", "1000", "--folder", str(tmp_path), "--plots", str(tmp_path)]
    assert CliRunner().invoke(main, line).exit_code == 0
    assert "--overwrite" in refused(*line)
    assert CliRunner().invoke(main, [*line, "--overwrite"]).exit_code == 0
    shutil.rmtree(tmp_path / "data.parquet")


def test_no_rows_are_not_three_million(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(demo, "_run", lambda n_rows, *args: asked.append(n_rows))
    for rows in (None, 0, 7):
        demo.run_demo(rows, str(tmp_path), str(tmp_path), "64MiB", print)
    assert asked == [demo.N_ROWS, 0, 7]
