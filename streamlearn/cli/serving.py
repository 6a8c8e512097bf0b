"""Commands that ask a model for its answers, or score them."""

from __future__ import annotations

import click
from click import option

from ..data.write.place import name_of, refuse_place
from .group import command
from .options import (
    load_model,
    needed_target,
    one_or_all,
    open_rows,
    parse_cuts,
    parse_names,
    settings_of,
)
from .output import report

WHAT = ("prediction", "decision", "probability", "explanation", "deviation", "uncertainty")


@command(
    "predict model.slm all.parquet --output scores.parquet",
    "predict model.slm all.parquet -o scores.parquet --what probability --overwrite",
    "predict hazard.slm all.parquet -o survival.parquet --survival 1,2,5",
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
    survival=option(
        "--survival",
        callback=parse_cuts,
        metavar="CUTS",
        help="Write the chances of no event up to each cut, such as 1,2,5: those of --at-risk.",
    ),
    ordinal_steps=option(
        "--ordinal-steps",
        callback=parse_names,
        metavar="CLASSES",
        help="Write the chances of these ordered classes: those of the fit.",
    ),
)
def predict(
    model_file: str,
    data: tuple[str, ...],
    output: str,
    what: str,
    overwrite: bool,
    survival: list[float] | None,
    ordinal_steps: list[str] | None,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Write a prediction for each row of DATA.

    MODEL_FILE is what fit wrote.  The rows keep their order; --output becomes a folder of parquet
    files, which readers take for one table, or a zarr group.
    """
    from ..estimator.at_risk import write_ordinal, write_survival

    if survival is not None and ordinal_steps is not None:
        raise click.UsageError("--survival and --ordinal-steps are two answers; ask for one")
    refuse_place(output, [name_of(model_file)])
    model, rows = load_model(model_file), one_or_all(data)
    with settings_of(memory_budget):
        if survival is not None:
            what = "survival"
            write_survival(model, rows, survival, output, overwrite=overwrite)
        elif ordinal_steps is not None:
            what = "probability"
            write_ordinal(model, rows, ordinal_steps, output, overwrite=overwrite)
        else:
            model.predict_to(rows, output, what, overwrite=overwrite)
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
    at_risk: tuple[str, list[float]] | None,
    ordinal_steps: list[str] | None,
    metric: tuple[str, ...],
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Score MODEL_FILE on DATA, in one read.

    Without --metric: accuracy and log-loss of classifiers, R2 and errors of regressors.
    """
    from ..estimator.scores.scoring import evaluate, suitable_metrics

    target = needed_target("evaluate", target)
    model = load_model(model_file, target, weight)
    wanted = metric or suitable_metrics(model)
    with settings_of(memory_budget):
        if at_risk is None and ordinal_steps is None:
            scores = evaluate(model, one_or_all(data), target, weight, scoring=wanted)
        else:
            rows = open_rows(data, target, weight, None, at_risk, ordinal_steps)
            scores = evaluate(model, rows, scoring=wanted)
    width = max(map(len, scores))
    lines = [f"{name:<{width}}  {value:.6g}" for name, value in scores.items()]
    report(scores, "\n".join(lines), json_output=json_output)
