"""Commands that train a model, judge how one would do, or make one small."""

from __future__ import annotations

import sys

import click
from click import option

import streamlearn as sl

from ..data.files.regular import refuse_unwritable
from ..data.write.place import name_of, refuse_source
from .group import NOT_CONVERGED, command
from .options import (
    load_model,
    make_model,
    needed_target,
    one_or_all,
    open_rows,
    parse_settings,
    settings_of,
)
from .output import report, warned


def parse_grid(
    ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, list[object] | tuple[object, ...]]:
    """``--grid C=[1,10]`` as the values of each parameter to try."""
    grid = {}
    for name, values in parse_settings(ctx, param, pairs).items():
        if not isinstance(values, list | tuple):
            raise click.BadParameter(f"expected {name}=[VALUE,VALUE,...], got {values!r}")
        grid[name] = values
    return grid


@command(
    "fit all.parquet --target y --output model.slm",
    "fit all.parquet -t y -o m.slm -m 256MiB --set C=10 --set n_bases=8 --checkpoint run1/",
    "fit all.parquet -t y -o mixture.slm --model SVMMixtureClassifier --set n_components=2",
    "fit all.parquet -t y -o hazard.slm --at-risk time=1,2,5 --model AdditiveRegressor "
    "--set loss=poisson --set exposure=exposure",
    output=option("--output", "-o", required=True, help="File for the model."),
    checkpoint=option(
        "--checkpoint", help="Folder where the fit keeps its progress, to go on after a kill."
    ),
    validation=option(
        "--validation", type=float, help="Fraction of rows held out and scored after each pass."
    ),
    progress=option("--progress", is_flag=True, help="Draw progress bars."),
    max_seconds=option(
        "--max-seconds",
        metavar="TIME",
        help='Stop after 3600 or "2h", exit code 5; the same line goes on.  Needs --checkpoint.',
    ),
)
def fit(
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    features: list[str] | None,
    at_risk: tuple[str, list[float]] | None,
    ordinal_steps: list[str] | None,
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
    target = needed_target("fit", target)
    model = make_model(model_name, settings)
    refuse_unwritable(output)
    dataset = open_rows(data, target, weight, features, at_risk, ordinal_steps)
    refuse_source(output, dataset.store.locations())
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


@command(
    "cross-validate all.parquet --target y",
    "cross-validate all.parquet -t y --cv 3 --grid C=[0.1,1] --scoring neg_log_loss",
    name="cross-validate",
    grid=option(
        "--grid",
        multiple=True,
        callback=parse_grid,
        metavar="NAME=[VALUE,...]",
        help="Values of a parameter to try; may be repeated.",
    ),
    cv=option("--cv", default=5, show_default=True, help="Number of splits."),
    seed=option("--seed", default=0, show_default=True, help="Seed of the splits."),
    scoring=option("--scoring", help="Name of the metric; default accuracy, or r2 of a regressor."),
)
def cross_validate(
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    features: list[str] | None,
    at_risk: tuple[str, list[float]] | None,
    ordinal_steps: list[str] | None,
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
    target = needed_target("cross-validate", target)
    model = make_model(model_name, settings)
    dataset = open_rows(data, target, weight, features, at_risk, ordinal_steps)
    with settings_of(memory_budget), warned():
        result = sl.cross_validate(model, dataset, cv, grid or None, seed, scoring)
    report(result, repr(result), json_output=json_output)


@command(
    "compress model.slm all.parquet --prototypes 5 --output small.slm --set tol=0.05",
    prototypes=option("--prototypes", "-n", required=True, type=int, help="Number of prototypes."),
    output=option("--output", "-o", required=True, help="File for the compressed model."),
    checkpoint=option(
        "--checkpoint", help="Folder where the search keeps its progress, to go on after a kill."
    ),
)
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
    refuse_unwritable(output)
    model = load_model(model_file, weight=weight)
    names = getattr(model, "feature_names_in_", None)
    features = None if names is None else list(map(str, names))
    dataset = sl.open_dataset(one_or_all(data), weight=weight, features=features)
    refuse_source(output, [name_of(model_file), *dataset.store.locations()])
    with settings_of(memory_budget), warned():
        small = sl.compress(model, dataset, prototypes, checkpoint=checkpoint, **settings)
    sl.save(small, output)
    result = {"output": output, "deviation": small.deviation_, "certificate": small.certificate_}
    text = f"{small}\n{small.deviation_}\n{small.certificate_!r}\nwritten to {output}"
    report(result, text, json_output=json_output)
    if not small.certificate_.converged:
        sys.exit(NOT_CONVERGED)
