"""The command line: describe data, plan, fit, predict, evaluate, plot, report, and a demonstration.

Exit codes: 0 done; 1 the data, a parameter or the system stood in the way; 2 wrong usage; 3 the
memory budget is too small; 4 the model is saved, but the fit stopped short of its tolerance; 5 the
fit had its seconds, the same line goes on; 130 interrupted.  Errors are one sentence on standard
error; results go to standard output, as JSON with ``--json``.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import math
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

import streamlearn as sl

WHAT = ("prediction", "decision", "probability", "explanation", "deviation", "uncertainty")
DONE, FAILED, USAGE, OVER_BUDGET, NOT_CONVERGED, OUT_OF_TIME, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class Commands(click.Group):
    """A group whose commands report expected errors in one sentence."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a known error becomes a line and an exit code."""
        from sklearn.exceptions import NotFittedError

        try:
            return super().invoke(ctx)
        except sl.MemoryBudgetError as error:
            code, told = OVER_BUDGET, str(error)
        except sl.TimeLimitError as error:
            code, told = OUT_OF_TIME, str(error)
        except (sl.StreamlearnError, NotFittedError, ValueError, TypeError, OSError) as error:
            code, told = FAILED, str(error)
        except KeyboardInterrupt:
            click.echo("interrupted; run the same line again to go on from a checkpoint", err=True)
            sys.exit(INTERRUPTED)
        click.echo("error: " + with_flags(" ".join(told.split()), self.commands.values()), err=True)
        sys.exit(code)


def with_flags(text: str, commands: Iterable[click.Command]) -> str:
    """A message of the library with its keyword arguments as the options of the command line."""
    options = [option for command in commands for option in command.params if option.opts]
    for option in options:
        if isinstance(option, click.Option):
            flag = max(option.opts, key=len)
            name = flag.removeprefix("--").replace("-", "_")
            text = re.sub(rf"\b{name}=True\b", flag, text)
            text = re.sub(rf"(?<![\w'-]){name}=(?=[\w'\"(\[.])", f"{flag} ", text)
            text = re.sub(rf"(?<![\w'-]){name}=", flag, text)
            if "_" in name:
                text = re.sub(rf"(?<![\w'-]){name}\b", flag, text)
    return text


def as_json(value: Any) -> Any:
    """A JSON image of results; numbers that JSON lacks become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value) if not f.name.startswith("_")]
        value = {name: getattr(value, name) for name in names}
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | str | None) else str(value)


def report(result: Any, text: str, *, json_output: bool) -> None:
    """Print a result for a person, or as one JSON object."""
    click.echo(json.dumps(as_json(result), indent=2) if json_output else text)


def parse_settings(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict:
    """``--set C=10 --set solver=newton`` as parameters; `parse_value` says of which values."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"expected NAME=VALUE, got {pair!r}")
        settings[name] = parse_value(value)
    return settings


def parse_grid(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict:
    """``--grid C=[1,10]`` as the values of each parameter to try."""
    grid = parse_settings(ctx, param, pairs)
    for name, values in grid.items():
        if not isinstance(values, list | tuple):
            raise click.BadParameter(f"expected {name}=[VALUE,VALUE,...], got {values!r}")
    return grid


def parse_value(text: str) -> object:
    """A value of the command line: JSON, a Python literal such as (2,2) or {1: 3.0}, inf, a word.

    Keys of JSON are always words, so that class labels that are numbers are written as Python does.
    """
    if text.strip().lower() in ("inf", "-inf"):
        return float(text)
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            continue
    return text


def make_model(name: str, settings: dict[str, Any]) -> Any:
    """An estimator by its public name, with these parameters."""
    known = predictors()
    if name not in known:
        raise ValueError(f"--model {name} is not known; use one of {', '.join(known)}")
    return known[name]().set_params(**settings)


def predictors() -> dict[str, Any]:
    """The public estimators that predict, by name."""
    from sklearn.base import BaseEstimator

    public = {name: getattr(sl, name) for name in sl.__all__}
    return {
        name: cls
        for name, cls in public.items()
        if isinstance(cls, type) and issubclass(cls, BaseEstimator) and hasattr(cls, "predict")
    }


def open_data(
    data: tuple[str, ...], target: str | None, weight: str | None, features: str | None
) -> Any:
    """The dataset that the arguments of a command name."""
    names = None if features is None else [name.strip() for name in features.split(",")]
    source = data[0] if len(data) == 1 else list(data)
    return sl.open_dataset(source, target=target, weight=weight, features=names)


def settings_of(
    memory_budget: str | None, progress: bool = False, max_seconds: str | None = None
) -> Any:
    """The context of a command; what is not asked for stays as the environment says."""
    asked = {
        "memory_budget": memory_budget,
        "progress": progress or None,
        "max_seconds": max_seconds,
    }
    return sl.config_context(**{key: value for key, value in asked.items() if value is not None})


@contextlib.contextmanager
def warned() -> Iterator[None]:
    """Warnings of what is done here as lines on standard error, at its end."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        yield
    for warning in caught:
        click.echo(f"warning: {warning.message}", err=True)


def examples(*lines: str) -> str:
    """The end of a command's help: lines that run one after another (a test runs them all)."""
    return "\b\nExamples:\n" + "\n".join(f"  streamlearn {line}" for line in lines)


DATA = click.argument("data", nargs=-1, required=True)
TARGET = click.option("--target", "-t", help="Column with the targets.")
WEIGHT = click.option("--weight", "-w", help="Column with sample weights.")
FEATURES = click.option(
    "--features", help="Feature columns, separated by commas; default all others."
)
MODEL = click.option(
    "--model",
    "model_name",
    default="AdditiveClassifier",
    show_default=True,
    help="Name of the estimator; a wrong name lists them all.",
)
SET = click.option(
    "--set",
    "settings",
    multiple=True,
    callback=parse_settings,
    metavar="NAME=VALUE",
    help="A parameter, such as C=10, n_components=(2,2) or class_weight={1:3}; may be repeated.",
)
BUDGET = click.option("--memory-budget", "-m", metavar="SIZE", help='Such as "256MiB".')
JSON = click.option("--json", "json_output", is_flag=True, help="Print one JSON object.")


OVERVIEW = """\b
From a table to a served model:
  streamlearn demo
  streamlearn describe all.parquet --target y
  streamlearn plan     all.parquet --target y --memory-budget 256MiB
  streamlearn fit      all.parquet --target y --memory-budget 256MiB -o model.slm
  streamlearn evaluate model.slm all.parquet --target y
  streamlearn predict  model.slm all.parquet -o scores.parquet

\b
Exit codes:
  0  done
  1  the data, a parameter or the system stood in the way
  2  wrong usage
  3  the memory budget is too small; the message says what would fit
  4  the model is saved, but the fit stopped short of its tolerance
  5  the fit had its --max-seconds; the same line goes on
  130  interrupted; with --checkpoint the same line goes on
"""


@click.group(cls=Commands, epilog=OVERVIEW)
@click.version_option(package_name="streamlearn")
def main() -> None:
    """Train models on data larger than memory.

    DATA is a parquet file, a folder of them, a quoted glob, several of these, a zarr store or a URL
    such as s3://bucket/train/*.parquet.  Nothing is loaded whole: a fit adds at most
    --memory-budget to what the libraries take, by default a quarter of the memory that is free.
    """


@main.command(epilog=examples("describe all.parquet --target y", "describe all.parquet --json"))
@DATA
@TARGET
@WEIGHT
@FEATURES
@BUDGET
@JSON
def describe(
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    features: str | None,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Read DATA once and say what is in it.

    Types, ranges, missing values, quantiles, levels and classes, and whether the file is sorted by
    class: what to know before a fit.
    """
    dataset = open_data(data, target, weight, features)
    with settings_of(memory_budget):
        summary = dataset.summary()
    facts = {f.name: getattr(summary, f.name) for f in dataclasses.fields(summary)}
    facts["columns"] = list(summary.columns)  # a record a column: they are kept as arrays of all
    report(facts, f"{dataset!r}\n\n{summary}", json_output=json_output)


@main.command(epilog=examples("plan all.parquet --target y --memory-budget 256MiB"))
@DATA
@TARGET
@WEIGHT
@FEATURES
@MODEL
@SET
@BUDGET
@JSON
def plan(
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    features: str | None,
    model_name: str,
    settings: dict[str, object],
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Say what a fit on DATA would cost, before it reads.

    The rows, the reads, and the memory of each phase, term by term.  A plan that does not fit the
    budget is refused with exit code 3 and says what would fit.
    """
    dataset = open_data(data, target, weight, features)
    result = sl.plan(make_model(model_name, settings), dataset, memory_budget=memory_budget)
    report(result, str(result), json_output=json_output)


@main.command(
    epilog=examples(
        "fit all.parquet --target y --output model.slm",
        "fit all.parquet -t y -o m.slm -m 256MiB --set C=10 --set n_bases=8 --checkpoint run1/",
        "fit all.parquet -t y -o mixture.slm --model SVMMixtureClassifier --set n_components=2",
    )
)
@DATA
@TARGET
@WEIGHT
@FEATURES
@MODEL
@SET
@click.option("--output", "-o", required=True, help="File for the model.")
@click.option(
    "--checkpoint", help="Folder where the fit keeps its progress, to go on after a kill."
)
@click.option(
    "--validation", type=float, help="Fraction of rows held out and scored after each pass."
)
@click.option("--progress", is_flag=True, help="Draw progress bars.")
@click.option(
    "--max-seconds",
    metavar="TIME",
    help='Stop after 3600 or "2h", exit code 5; the same line goes on.  Needs --checkpoint.',
)
@BUDGET
@JSON
def fit(
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    features: str | None,
    model_name: str,
    settings: dict[str, object],
    output: str,
    checkpoint: str | None,
    validation: float | None,
    progress: bool,
    max_seconds: str | None,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Train on DATA and write the model to a file.

    Prints the certificate: within which gap of the optimum the fit stopped, and what it cost.  A
    line that was killed goes on from its --checkpoint when it is run again.
    """
    if target is None:
        raise click.UsageError("fit needs the targets: --target COLUMN")
    model = make_model(model_name, settings)
    check_folder(output)
    dataset = open_data(data, target, weight, features)
    with settings_of(memory_budget, progress, max_seconds), warned():
        model.fit(dataset, validation=validation, checkpoint=checkpoint)
    sl.save(model, output)
    certificate = model.certificate_
    report(
        {"model": model_name, "output": output, "certificate": certificate},
        f"{model}\n{certificate!r}\nwritten to {output}",
        json_output=json_output,
    )
    if not certificate.converged:
        sys.exit(NOT_CONVERGED)


@main.command(
    "cross-validate",
    epilog=examples(
        "cross-validate all.parquet --target y",
        "cross-validate all.parquet -t y --cv 3 --grid C=[0.1,1] --scoring neg_log_loss",
    ),
)
@DATA
@TARGET
@WEIGHT
@FEATURES
@MODEL
@SET
@click.option(
    "--grid",
    multiple=True,
    callback=parse_grid,
    metavar="NAME=[VALUE,...]",
    help="Values of a parameter to try; may be repeated.",
)
@click.option("--cv", default=5, show_default=True, help="Number of splits.")
@click.option("--seed", default=0, show_default=True, help="Seed of the splits.")
@click.option("--scoring", help="Name of the metric; default accuracy, or r2 of a regressor.")
@BUDGET
@JSON
def cross_validate(
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    features: str | None,
    model_name: str,
    settings: dict[str, object],
    grid: dict[str, list[object]],
    cv: int,
    seed: int,
    scoring: str | None,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Score a model on rows that it was not trained on.

    Each split of DATA is held out once, and all combinations of the values of --grid are scored on
    the same splits.  Nothing is written.
    """
    if target is None:
        raise click.UsageError("cross-validate needs the targets: --target COLUMN")
    model = make_model(model_name, settings)
    dataset = open_data(data, target, weight, features)
    with settings_of(memory_budget), warned():
        result = sl.cross_validate(model, dataset, cv, grid or None, seed, scoring)
    report(result, repr(result), json_output=json_output)


@main.command(
    epilog=examples(
        "compress model.slm all.parquet --prototypes 5 --output small.slm --set tol=0.05"
    )
)
@click.argument("model_file")
@DATA
@click.option("--prototypes", "-n", required=True, type=int, help="Number of prototypes.")
@WEIGHT
@SET
@click.option("--output", "-o", required=True, help="File for the compressed model.")
@click.option(
    "--checkpoint", help="Folder where the search keeps its progress, to go on after a kill."
)
@BUDGET
@JSON
def compress(
    model_file: str,
    data: tuple[str, ...],
    prototypes: int,
    weight: str | None,
    settings: dict[str, object],
    output: str,
    checkpoint: str | None,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Write MODEL_FILE as a few prototypes.

    DATA are rows like those to come; targets are not needed, because the small model learns the
    answers of the large one.  Prints how far they differ.
    """
    check_folder(output)
    model = sl.load(model_file)
    names = getattr(model, "feature_names_in_", None)
    features = None if names is None else ",".join(map(str, names))
    dataset = open_data(data, None, weight, features)
    with settings_of(memory_budget), warned():
        small = sl.compress(model, dataset, prototypes, checkpoint=checkpoint, **settings)
    sl.save(small, output)
    result = {"output": output, "deviation": small.deviation_, "certificate": small.certificate_}
    text = f"{small}\n{small.deviation_}\n{small.certificate_!r}\nwritten to {output}"
    report(result, text, json_output=json_output)
    if not small.certificate_.converged:
        sys.exit(NOT_CONVERGED)


@main.command(epilog=examples("status run1/"))
@click.argument("run")
@JSON
def status(
    run: str,
    json_output: bool,
) -> None:
    """Say how far a fit is, from any shell.

    RUN is the folder or URL that was given to fit as --checkpoint.
    """
    from .engine.watch.status import read_status

    result = read_status(run)
    report(result, str(result), json_output=json_output)


@main.command(
    epilog=examples(
        "predict model.slm all.parquet --output scores.parquet",
        "predict model.slm all.parquet -o scores.parquet --what probability --overwrite",
    )
)
@click.argument("model_file")
@DATA
@click.option("--output", "-o", required=True, help="Folder for the parts (*.zarr: a zarr group).")
@click.option("--what", default="prediction", show_default=True, type=click.Choice(WHAT),
              help="What to write of each row; what a model does not have is refused.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace an existing output.")
@BUDGET
@JSON
def predict(
    model_file: str,
    data: tuple[str, ...],
    output: str,
    what: str,
    overwrite: bool,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Write a prediction for each row of DATA.

    MODEL_FILE is what fit wrote.  The rows keep their order; --output becomes a folder of parquet
    files, which readers take for one table, or a zarr group.
    """
    model = sl.load(model_file)
    with settings_of(memory_budget):
        source = data[0] if len(data) == 1 else list(data)
        model.predict_to(source, output, what, overwrite=overwrite)
    report({"output": output, "what": what}, f"written to {output}", json_output=json_output)


@main.command(
    epilog=examples(
        "evaluate model.slm all.parquet --target y",
        "evaluate model.slm all.parquet -t y --metric roc_auc --metric 'lift(1)'",
    )
)
@click.argument("model_file")
@DATA
@TARGET
@WEIGHT
@click.option("--metric", multiple=True, help="Name of a metric; may be repeated.")
@BUDGET
@JSON
def evaluate(
    model_file: str,
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    metric: tuple[str, ...],
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Score MODEL_FILE on DATA, in one read.

    Without --metric: accuracy and log-loss of classifiers, R2 and errors of regressors.
    """
    from .estimator.scoring import evaluate, suitable_metrics

    if target is None:
        raise click.UsageError("evaluate needs the targets: --target COLUMN")
    model = sl.load(model_file)
    source = data[0] if len(data) == 1 else list(data)
    with settings_of(memory_budget):
        scores = evaluate(model, source, target, weight, scoring=metric or suitable_metrics(model))
    width = max(map(len, scores))
    lines = [f"{name:<{width}}  {value:.6g}" for name, value in scores.items()]
    report(scores, "\n".join(lines), json_output=json_output)


@main.command(
    epilog=examples(
        "plot model.slm --output pictures",
        "plot model.slm -o pictures --data all.parquet --target y",
    )
)
@click.argument("model_file")
@click.option("--output", "-o", default=".", show_default=True, help="Folder for the pictures.")
@click.option(
    "--features", help="Columns to draw, separated by commas; default the 12 that matter most."
)
@click.option("--data", help="Rows to hold predicted probabilities against; with --target.")
@TARGET
@BUDGET
@JSON
def plot(
    model_file: str,
    output: str,
    features: str | None,
    data: str | None,
    target: str | None,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Draw MODEL_FILE as PNG pictures.

    Its terms, how its fit converged, and with --data and --target its calibration.
    """
    from .plotting import draw_model

    if (data is None) != (target is None):
        raise click.UsageError("--data and --target go together")
    model = sl.load(model_file)
    names = None if features is None else [name.strip() for name in features.split(",")]
    with settings_of(memory_budget):
        paths = draw_model(model, output, names, data, target)
    report(
        {"plots": paths}, "\n".join(f"written to {path}" for path in paths), json_output=json_output
    )


@main.command(
    "report",
    epilog=examples(
        "report model.slm --output report.html",
        "report model.slm all.parquet --target y -o report.html",
    ),
)
@click.argument("model_file")
@click.argument("data", nargs=-1)
@TARGET
@WEIGHT
@click.option("--output", "-o", default="report.html", show_default=True, help="File for the page.")
@BUDGET
@JSON
def report_page(
    model_file: str,
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    output: str,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Show MODEL_FILE on one HTML page.

    Its summary, certificate, convergence and terms; with DATA and --target also how it does on
    them: curves, calibration or residuals, errors by decile, and where it is worst.
    """
    if bool(data) != (target is not None):
        raise click.UsageError("DATA and --target go together")
    check_folder(output)
    model = sl.load(model_file)
    source = data[0] if len(data) == 1 else list(data) or None
    with settings_of(memory_budget):
        path = model.report(source, target, weight, output=output)
    report({"report": path}, f"written to {path}", json_output=json_output)


@main.command(epilog=examples("demo --rows 20000 --plots ."))
@click.option("--rows", default=None, type=int, help="Rows to write; default 3 million.")
@click.option("--folder", default=None, help="Where to write; default a temporary folder, removed.")
@click.option("--plots", default=".", show_default=True, help="Folder for the plots.")
@click.option("--memory-budget", "-m", metavar="SIZE", default="64MiB", show_default=True)
@JSON
def demo(
    rows: int | None,
    folder: str | None,
    plots: str,
    memory_budget: str,
    json_output: bool,
) -> None:
    """Train on more data than memory, now.

    Writes a table several times larger than the memory budget, fits it, and shows the peak of
    memory beside what other ways need.
    """
    from .demo import run_demo

    say = (lambda text: None) if json_output else click.echo
    result = run_demo(rows, folder, plots, memory_budget, say)
    if json_output:
        report(result, "", json_output=True)


def check_folder(output: str) -> None:
    """Refuse an output that cannot be written before the fit, not after it."""
    if "://" not in output and not Path(output).absolute().parent.is_dir():
        raise FileNotFoundError(f"no folder {Path(output).absolute().parent} for --output {output}")


if __name__ == "__main__":
    main(prog_name="streamlearn")
