"""Commands that ask a model for its answers, or score them."""

from __future__ import annotations

import click
from click import option

import streamlearn as sl

from .group import command
from .options import needed_target, one_or_all, settings_of
from .output import report

WHAT = ("prediction", "decision", "probability", "explanation", "deviation", "uncertainty")


@command(
    "predict model.slm all.parquet --output scores.parquet",
    "predict model.slm all.parquet -o scores.parquet --what probability --overwrite",
    output=option(
        "--output", "-o", required=True, help="Folder for the parts (*.zarr: a zarr group)."
    ),
    what=option(
        "--what",
        default="prediction",
        show_default=True,
        type=click.Choice(WHAT),
        help="What to write of each row; what a model does not have is refused.",
    ),
    overwrite=option("--overwrite", is_flag=True, help="Replace an existing output."),
)
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
        model.predict_to(one_or_all(data), output, what, overwrite=overwrite)
    report({"output": output, "what": what}, f"written to {output}", json_output=json_output)


@command(
    "evaluate model.slm all.parquet --target y",
    "evaluate model.slm all.parquet -t y --metric roc_auc --metric 'lift(1)'",
    metric=option("--metric", multiple=True, help="Name of a metric; may be repeated."),
)
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
    from ..estimator.scores.scoring import evaluate, suitable_metrics

    target = needed_target("evaluate", target)
    model = sl.load(model_file)
    wanted = metric or suitable_metrics(model)
    with settings_of(memory_budget):
        scores = evaluate(model, one_or_all(data), target, weight, scoring=wanted)
    width = max(map(len, scores))
    lines = [f"{name:<{width}}  {value:.6g}" for name, value in scores.items()]
    report(scores, "\n".join(lines), json_output=json_output)
