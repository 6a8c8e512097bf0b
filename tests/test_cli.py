"""The command line: what it prints, what it exits with, and one sentence for every error."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from estimator.ridge import RidgeClassifier, RidgeRegressor

import streamlearn as sl
from streamlearn import plotting
from streamlearn.cli import main
from streamlearn.cli.group import INTERRUPTED, NOT_CONVERGED, with_flags
from streamlearn.cli.options import parse_value
from streamlearn.cli.serving import WHAT
from streamlearn.estimator import predicting


@pytest.fixture(autouse=True)
def family(monkeypatch):
    """The tests' own family under public names, so that these tests wait for no other."""
    for cls in (RidgeClassifier, RidgeRegressor):
        monkeypatch.setattr(sl, cls.__name__, cls, raising=False)
    monkeypatch.setattr(sl, "__all__", [*sl.__all__, "RidgeClassifier", "RidgeRegressor"])


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    columns = {"a": X[:, 0], "b": X[:, 1], "y": (X[:, 0] > 0.5).astype(int), "w": np.ones(300)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=100)
    return str(tmp_path / "t.parquet")


def run(*args, code=0):
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result


def fit(data, output, *more, code=0):
    return run(
        "fit", data, "--target", "y", "--weight", "w", "--model", "RidgeClassifier",
        "--output", output, *more, code=code,
    )  # fmt: skip


def test_answers_that_can_be_asked_for():
    assert WHAT == predicting.WHAT


def test_describe(data):
    text = run("describe", data, "--target", "y").output
    assert "300 rows" in text
    assert "median" in text
    facts = json.loads(run("describe", data, "--target", "y", "--json").output)
    assert facts["n_rows"] == 300
    assert facts["columns"][0]["name"] == "a"
    assert not [name for name in facts["columns"][0] if name.startswith("_")]
    assert facts["labels"]["classes"] == [0, 1]


def test_plan(data):
    args = ("plan", data, "--target", "y", "--model", "RidgeClassifier", "-m", "64MiB")
    assert "summary" in run(*args).output
    assert json.loads(run(*args, "--json").output)["budget"] == 64 << 20


def test_fit_evaluate_predict(data, tmp_path):
    model = tmp_path / "m.slm"
    out = json.loads(fit(data, model, "--set", "C=10", "--json").stdout)
    assert out["certificate"]["converged"] is True
    assert sl.load(model).get_params() == {"C": 10, "tol": 1e-6}
    scores = json.loads(run("evaluate", model, data, "--target", "y", "--json").output)
    assert scores["accuracy"] > 0.9
    assert scores["log_loss"] > 0
    assert "accuracy" in run("evaluate", model, data, "-t", "y", "-w", "w").output
    names = ("--metric", "roc_auc", "--metric", "lift(1)")
    scores = json.loads(run("evaluate", model, data, "-t", "y", *names, "--json").output)
    assert list(scores) == ["roc_auc", "lift(1)"]
    assert 0.5 < scores["roc_auc"] <= 1
    run("predict", model, data, "--output", tmp_path / "p", "--what", "probability")
    table = pq.read_table(tmp_path / "p")
    assert table.column_names == ["probability_0", "probability_1"]
    assert table.num_rows == 300


def test_plot(data, tmp_path):
    pytest.importorskip("matplotlib")
    model, plots = tmp_path / "m.slm", tmp_path / "plots"
    options = ("--target", "y", "--set", "n_bases=4", "--features", "a,b")
    run("fit", data, *options, "--output", model)
    out = json.loads(run("plot", model, "-o", plots, "--data", data, "-t", "y", "--json").stdout)
    names = [f"{name}.png" for name in ("terms", "convergence", "calibration")]
    assert out["plots"] == [str(plots / name) for name in names]
    assert all((plots / name).stat().st_size > 5000 for name in names)
    assert "no column 'z'" in run("plot", model, "--features", "z", code=1).stderr
    assert "together with --target" in run("plot", model, "--data", data, code=2).stderr
    rows, many = (
        ("plot", model, "-o", plots, "--data", data, "--rows"),
        "0,1,2,3,4,5,6,7,8,9,10,11,12",
    )
    assert str(plots / "rows.png") in json.loads(run(*rows, "5, 17", "--json").stdout)["plots"]
    assert "no rows of the numbers [300]" in run(*rows, "0,300", code=1).stderr
    assert "more than 12 rows are to be drawn" in run(*rows, many, code=1).stderr
    assert "expected numbers such as 0,17, got 'x'" in run(*rows, "x", code=2).stderr
    fit(data, model)  # of another family: no terms
    assert "terms" not in run("plot", model, "-o", tmp_path / "other").output
    assert "is no sum of terms; leave --rows out" in run(*rows, "0", code=1).stderr
    assert "no sum of terms" in run("plot", model, "--features", "a", code=1).stderr
    options = ("--target", "y", "--set", "n_bases=4", "--set", "loss=hinge", "--features", "a,b")
    run("fit", data, *options, "--set", "tol=0.1", "--output", model)
    failed = run("plot", model, "-o", plots, "--data", data, "-t", "y", code=1)
    assert "no probabilities" in failed.stderr


def test_plot_compares_two_models(data, tmp_path):
    pytest.importorskip("matplotlib")
    first, second, other = (tmp_path / name for name in ("a.slm", "b.slm", "c.slm"))
    for model, C in ((first, 1), (second, 0.01)):
        run("fit", data, "-t", "y", "--set", "n_bases=4", "--set", f"C={C}", "--features", "a,b",
            "-o", model)  # fmt: skip
    shown = run("plot", first, "--compare", second, "-o", tmp_path / "plots")
    assert f"written to {tmp_path / 'plots' / 'comparison.png'}" in shown.stdout
    assert "distance" in shown.stdout
    out = json.loads(run("plot", first, "--compare", second, "-o", tmp_path, "--json").stdout)
    expected = sl.AdditiveDisplay.compare(sl.load(first), sl.load(second))
    assert out["plots"] == [str(tmp_path / "comparison.png")]
    assert out["distances"] == expected.distances_.columns
    labels = [text.get_text() for text in expected.axes_[0].get_legend().get_texts()]
    assert labels == ["first", "second"]
    failed = run("plot", first, "--compare", second, "--rows", "0", code=2)
    assert "--compare reads no rows" in failed.stderr
    fit(data, other)
    failed = run("plot", first, "--compare", other, code=1)
    assert "c.slm holds a RidgeClassifier, which is no sum of terms" in failed.stderr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("[1, 2.5]", [1, 2.5]),
        ("(2,2)", (2, 2)),
        ('{"few": 3}', {"few": 3}),
        ("{1: 3.0, 0: 1}", {1: 3.0, 0: 1}),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("null", None),
        ("None", None),
        ("true", True),
        ("log_loss", "log_loss"),
        ("a/b.c", "a/b.c"),
    ],
)
def test_values_of_settings(text, value):
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_settings_that_json_does_not_have(data, tmp_path):
    """Labels that are numbers, a tuple: the parameters of the saved models."""
    base = ("fit", data, "-t", "y", "--features", "a,b", "-o", tmp_path / "m.slm")
    run(*base, "--set", "class_weight={1: 3.0}", "--set", "n_bases=4")
    assert sl.load(tmp_path / "m.slm").class_weight == {1: 3.0}
    tree = (
        "--model",
        "SVMMixtureClassifier",
        "--set",
        "n_components=(2,2)",
        "--set",
        "gate=linear",
    )
    result = CliRunner().invoke(main, [str(arg) for arg in (*base, *tree)])
    assert result.exit_code in (0, NOT_CONVERGED), result.output
    assert sl.load(tmp_path / "m.slm").n_components == (2, 2)


def test_cross_validate(data):
    base = ("cross-validate", data, "-t", "y", "-w", "w", "--features", "a,b", "--cv", "3")
    options = ("--set", "n_bases=4", "--grid", "C=[0.01,1]", "--scoring", "neg_log_loss")
    found = json.loads(run(*base, *options, "--json").stdout)
    rows = sl.open_dataset(data, target="y", weight="w", features=["a", "b"])
    model = sl.AdditiveClassifier(n_bases=4)
    wanted = sl.cross_validate(model, rows, 3, {"C": [0.01, 1]}, scoring="neg_log_loss")
    assert found["scores"] == wanted.scores.tolist()
    assert found["parameters"] == [{"C": 0.01}, {"C": 1}]
    assert "accuracy over 3 splits" in run(*base, "--set", "n_bases=4").output
    assert "needs the targets" in run("cross-validate", data, code=2).output
    assert "expected C=[VALUE,VALUE,...]" in run(*base, "--grid", "C=1", code=2).output


def test_compress(data, tmp_path):
    model, small = tmp_path / "m.slm", tmp_path / "small.slm"
    run("fit", data, "-t", "y", "--features", "a,b", "--set", "n_bases=4", "-o", model)
    line = ("compress", model, data, "-n", "4", "-w", "w", "-o", small, "--set", "tol=0.2")
    out = json.loads(run(*line, "--set", "class_weight={1: 2.0}", "--json").stdout)
    rows = sl.open_dataset(data, features=["a", "b"], weight="w")
    wanted = sl.compress(sl.load(model), rows, 4, tol=0.2, class_weight={1: 2.0})
    np.testing.assert_array_equal(sl.load(small).coef_, wanted.coef_)
    assert out["deviation"]["agreement"] == wanted.deviation_.agreement > 0.9
    run("predict", small, data, "-o", tmp_path / "p")
    assert "no folder" in run(*line[:-4], "-o", tmp_path / "no" / "s.slm", code=1).stderr


@pytest.fixture
def subjects(tmp_path):
    """Rows with a time and an event, and with an ordered class of words."""
    rng = np.random.default_rng(0)
    age = rng.random(400)
    columns = {"age": age, "time": rng.exponential(np.exp(1 - 2 * age)), "died": np.arange(400) % 2}
    columns["grade"] = np.array(["low", "middle", "high"])[np.digitize(age, [0.3, 0.6])]
    pq.write_table(pa.table(columns), tmp_path / "s.parquet", row_group_size=70)
    return str(tmp_path / "s.parquet")


def test_survival(subjects, tmp_path):
    """From rows with a time and an event to curves, which are those from Python."""
    model, out, cuts = tmp_path / "m.slm", tmp_path / "out", "0.5,1,2"
    rows = ["--at-risk", f"time={cuts}", "--target", "died"]
    kind = ["--features", "age", "--model", "AdditiveRegressor", "--set", "n_bases=4"]
    kind += ["--set", "loss=poisson", "--set", "exposure=exposure"]
    run("fit", subjects, *rows, *kind, "--output", model)
    assert "1,200" in run("plan", subjects, *rows, *kind).output
    assert "interval" in run("describe", subjects, *rows, "--features", "age").output
    assert (
        "deviance"
        in run("evaluate", model, subjects, *rows, "--metric", "mean_poisson_deviance").output
    )
    run("predict", model, subjects, "--survival", cuts, "-o", out)
    found = pd.read_parquet(out)
    assert list(found) == ["survival_0.5", "survival_1", "survival_2"]
    expected = sl.survival_curves(sl.load(model), subjects, [0.5, 1, 2])
    np.testing.assert_array_equal(found.to_numpy(), expected)


@pytest.mark.parametrize("budget", [None, "24MiB"])
def test_ordered_classes(subjects, tmp_path, budget):
    model, out = tmp_path / "m.slm", tmp_path / "out"
    steps, kind = ["--ordinal-steps", "low,middle,high"], ["--set", "n_bases=4"]
    table = [subjects, "--target", "grade", "--features", "age,time", *steps]
    run("fit", *table, *kind, "--output", model)
    assert "+/-" in run("cross-validate", *table, *kind, "--cv", 2).output
    within = [] if budget is None else ["--memory-budget", budget]
    run("predict", model, subjects, *steps, "-o", out, *within)
    found = pd.read_parquet(out)
    assert list(found) == ["probability_low", "probability_middle", "probability_high"]
    expected = sl.ordinal_probabilities(sl.load(model), subjects, ["low", "middle", "high"])
    np.testing.assert_array_equal(found.to_numpy(), expected)


def test_rows_at_risk_that_are_misread(subjects, tmp_path):
    fit = ["fit", subjects, "--target", "died", "-o", tmp_path / "m.slm"]
    assert "expected COLUMN=CUTS" in run(*fit, "--at-risk", "time", code=2).output
    assert "ends of intervals" in run(*fit, "--at-risk", "time=soon", code=2).output
    both = ["--at-risk", "time=1", "--ordinal-steps", "0,1"]
    assert "two kinds of rows" in run(*fit, *both, code=2).output
    predict = ["predict", tmp_path / "m.slm", subjects, "-o", tmp_path / "out"]
    both = ["--survival", "1", "--ordinal-steps", "0,1"]
    assert "two answers" in run(*predict, *both, code=2).output


def test_report(data, tmp_path):
    model, page = tmp_path / "m.slm", tmp_path / "page.html"
    fit(data, model)
    assert json.loads(run("report", model, "-o", page, "--json").stdout) == {"report": str(page)}
    assert "Where it is worst" not in page.read_text()
    run("report", model, data, "-t", "y", "-o", page, "-m", "64MiB")
    assert "Where it is worst" in page.read_text()
    assert "go together" in run("report", model, data, code=2).stderr
    assert "no folder" in run("report", model, "-o", tmp_path / "none" / "r.html", code=1).stderr


def test_checkpoint_and_validation(data, tmp_path):
    for _ in range(2):
        fit(data, tmp_path / "m.slm", "--checkpoint", tmp_path / "run", "--validation", "0.2")
    assert (tmp_path / "run" / "manifest.json").exists()


def test_stopped_short(data, tmp_path):
    result = fit(data, tmp_path / "m.slm", "--set", "tol=-1", code=NOT_CONVERGED)
    assert "stopped after" in result.stderr
    assert sl.load(tmp_path / "m.slm").certificate_.converged is False


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (["--target", "nope"], 1, "nope"),
        (["--set", "C=-1"], 1, "'C' parameter of RidgeClassifier"),
        (["--set", "gamma=1"], 1, "gamma"),
        (["--model", "Nonsense"], 1, "--model Nonsense is not known; use one of"),
        (["--model", "Dataset"], 1, "--model Dataset is not known"),
        (["--memory-budget", "1KiB"], 3, "the budget is 1.0 KiB"),
        (["--memory-budget", "much"], 1, "a size in bytes was expected"),
        (["--output", "no/such/folder/m.slm"], 1, "no folder"),
        (["--set", "C"], 2, "expected NAME=VALUE"),
        (["--features", "a,z"], 1, "z"),
    ],
)
def test_errors_are_one_sentence(data, tmp_path, change, code, message):
    result = fit(data, tmp_path / "m.slm", *change, code=code)
    assert message in result.stderr
    assert "Traceback" not in result.output
    if code != 2:
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("error: ")
    assert not (tmp_path / "m.slm").exists()


def test_errors_of_other_commands(data, tmp_path):
    assert "nothing.parquet" in run("describe", tmp_path / "nothing.parquet", code=1).stderr
    assert "m.slm" in run("evaluate", tmp_path / "m.slm", data, "-t", "y", code=1).stderr
    fit(data, tmp_path / "m.slm")
    assert "--target" in run("evaluate", tmp_path / "m.slm", data, code=2).stderr
    run("predict", tmp_path / "m.slm", data, "-o", tmp_path / "p")
    result = run("predict", tmp_path / "m.slm", data, "-o", tmp_path / "p", code=1)
    assert "exists already; pass --overwrite, or another path" in result.stderr
    result = run("predict", tmp_path / "m.slm", data, "-o", tmp_path / "p.csv", code=1)
    assert "not as .csv; choose a name without it" in result.stderr
    assert not (tmp_path / "p.csv").exists()
    assert "--target COLUMN" in run("fit", data, "-o", tmp_path / "n.slm", code=2).stderr


def test_every_predictor_is_in_the_list_of_models(data, tmp_path):
    told = fit(data, tmp_path / "m.slm", "--model", "Nonsense", code=1).stderr
    for name in sl.__all__:
        if hasattr(getattr(sl, name), "predict"):
            assert name in told


PATHS = (
    *("h/target=1/p.parquet", "/data/memory_budget/what=a", "s3://b/features=2/at_risk/x.parquet"),
    *("'out/overwrite=True/a.parquet'", "target=1/p.parquet", "/a(1)/target=1"),
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pass overwrite=True, or", "pass --overwrite, or"),
        ("raise memory_budget to 3 MiB", "raise --memory-budget to 3 MiB"),
        ("leave it out with features=", "leave it out with --features"),
        ("features=[...] or C=1", "--features [...] or C=1"),
        ("max_seconds=3 needs checkpoint=", "--max-seconds 3 needs --checkpoint"),
        ("the model's n_features=3", "the model's n_features=3"),
        *[(kept, kept) for kept in PATHS],
        *[
            (f"cannot read {kept}, row group 3", f"cannot read {kept}, row group 3")
            for kept in PATHS
        ],
        ("open_dataset(..., target=...)", "open_dataset(..., target=...)"),
        ("cv='gcv' or set_config(memory_budget=1)", "cv='gcv' or set_config(memory_budget=1)"),
        ("fit it to data.at_risk(...)", "fit it to --at-risk COLUMN=CUTS"),
        ("a model of data.ordinal_steps(classes)", "a model of --ordinal-steps CLASSES"),
        ("what fit(checkpoint=...) was given", "what fit --checkpoint was given"),
        ("call fit(..., validation=0.1)", "call fit --validation 0.1"),
        ("sl.cross_validate(model, data, param_grid=...)",) * 2,
    ],
)
def test_messages_name_the_options(text, told):
    """Those of the command alone: predict and fit share none of theirs but these."""
    name = "predict" if "overwrite" in text else "fit"
    assert with_flags(text, main.commands, name) == told


@pytest.mark.parametrize("name", sorted(main.commands))
def test_messages_name_no_option_that_there_is_not(name):
    """Of all that a message says, what begins with two dashes is an option of the command."""
    own = {flag for option in main.commands[name].params for flag in option.opts}
    every = {flag for command in main.commands.values() for p in command.params for flag in p.opts}
    words = {flag.removeprefix("--").replace("-", "_") for flag in every}
    for word in words:
        told = with_flags(f"pass {word}=True, {word}=3, {word}= or {word}", main.commands, name)
        assert set(re.findall(r"--[a-z-]+", told)) <= own


def test_calibration_of_strings_and_of_more_rows_than_bins(tmp_path):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    a, city = rng.random(2000), rng.choice(["Bern", "Oslo", "Rome"], 2000)
    label = np.where(a + (city == "Oslo") + rng.normal(0, 0.2, 2000) > 0.8, "yes", "no")
    pq.write_table(pa.table({"a": a, "city": city, "y": label}), tmp_path / "s.parquet")
    run("fit", tmp_path / "s.parquet", "-t", "y", "-o", tmp_path / "m.slm", "--set", "n_bases=4")
    shown = run("plot", tmp_path / "m.slm", "-o", tmp_path, "--data", tmp_path / "s.parquet",
                "-t", "y", "--json")  # fmt: skip
    assert str(tmp_path / "calibration.png") in json.loads(shown.stdout)["plots"]


def test_reliability_against_sorting():
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.5, 5000)
    y = rng.random(5000) < p
    cell = (4096 * p).astype(int)
    histogram = np.array([np.bincount(cell, w, 4096) for w in (np.ones(5000), y, p)])
    predicted, share = plotting.reliability(histogram)
    order = np.argsort(p)
    groups = np.array_split(order, 10)
    np.testing.assert_allclose(predicted, [p[g].mean() for g in groups], atol=2e-3)
    np.testing.assert_allclose(share, [y[g].mean() for g in groups], atol=1e-2)


def test_interrupt(data, tmp_path, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(RidgeClassifier, "_fit", stop)
    result = fit(data, tmp_path / "m.slm", code=INTERRUPTED)
    assert "interrupted" in result.stderr


def test_help_names_every_command():
    text = run("--help").output
    for command in ("demo", "describe", "plan", "fit", "predict", "evaluate", "plot"):
        assert command in text


@pytest.mark.slow
def test_as_a_program(data):
    done = subprocess.run(
        [sys.executable, "-m", "streamlearn", "describe", data, "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["n_rows"] == 300


@pytest.mark.slow
def test_demo(tmp_path):
    places = ("--folder", tmp_path / "d", "--plots", tmp_path / "plots")
    result = run("demo", "--rows", 70_000, *places, "--json")
    facts = json.loads(result.stdout)
    assert facts["peak_over_baseline_bytes"] <= facts["memory_budget_bytes"]
    assert facts["log_loss"] < facts["best_possible_log_loss"] + 0.01
    assert facts["relative_gap"] < 1e-4
    assert all(path.startswith(str(tmp_path)) for path in (*facts["plots"], facts["report"]))
    assert "Where it is worst" in (tmp_path / "plots" / "streamlearn-demo.html").read_text()


def test_curves_as_text():
    from streamlearn.demo import text_curves

    X = np.random.default_rng(0).random((500, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": 0.1 * X[:, 1]})
    model = sl.AdditiveClassifier().fit(frame, X[:, 0] > 0.5)
    rising, flat = (line.split()[1] for line in text_curves(model, "ab", 30))
    heights = [ord(c) for c in rising]
    assert len(rising) == len(flat) == 30
    assert heights == sorted(heights)  # blocks of growing height, one after the other in Unicode
    assert heights[-1] - heights[0] == 7
    assert len(set(flat)) < 4


ORDER = "describe plan cross-validate fit status predict evaluate compress plot report demo".split()
"""Of the commands: each leaves what the next one's examples need."""


def example_lines():
    return [
        shlex.split(line)[1:]
        for name in sorted(main.commands, key=ORDER.index)
        for line in main.commands[name].epilog.splitlines()
        if line.startswith("  streamlearn ")
    ]


def test_every_command_ends_with_examples_and_begins_with_a_whole_sentence():
    assert {line[0] for line in example_lines()} == set(main.commands)
    listed = run("--help").output
    for name, command in main.commands.items():
        short = command.get_short_help_str(100)
        assert short.endswith((".", "?")), name
        assert short in " ".join(listed.split()), f"{name} is cut off in the list of commands"


@pytest.mark.slow
def test_examples_of_the_help_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.random((3, 3000), dtype=np.float32)
    columns = {"a": x[0], "b": x[1], "y": (x[0] + x[1] > rng.random(3000) + 0.5).astype(int)}
    columns["time"] = 6 * x[2]
    pq.write_table(pa.table(columns), "all.parquet", row_group_size=1000)
    for line in example_lines():
        assert run(*line).output.strip(), line
    assert (tmp_path / "mixture.slm").exists()


def test_the_version_is_that_of_the_installed_package():
    from importlib.metadata import version

    assert version("streamlearn") in run("--version").output


FAMILIES = {
    "AdditiveClassifier": "n_bases=4",
    "SVMMixtureClassifier": "n_components=2",
    "ShareBoostClassifier": "n_selected=2",
    "JensenShannonBoostClassifier": "n_learners=2",
    "SuperSparseClassifier": "n_prototypes=3",
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_fitted_to_strings(tmp_path, name):
    """Strings, holes and a string target from the command line; the same model as from Python."""
    rng = np.random.default_rng(0)
    a, city = rng.random(300), rng.choice(["Bern", "Oslo", "Rome"], 300)
    label = np.where(a + (city == "Oslo") > 0.8, "yes", "no")
    a[::20] = np.nan
    pq.write_table(pa.table({"a": a, "city": city, "y": label}), tmp_path / "s.parquet")
    table, saved, out = (tmp_path / x for x in ("s.parquet", "m.slm", "out.parquet"))
    result = CliRunner().invoke(
        main,
        ["fit", str(table), "-t", "y", "--model", name, "-o", str(saved), "--set", FAMILIES[name]],
    )
    assert result.exit_code in (0, NOT_CONVERGED), result.output
    run("predict", saved, table, "-o", out)
    answers = pq.read_table(out)["prediction"].to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(answers, sl.load(saved).predict(str(table)))
    assert (answers == label).mean() > 0.8
