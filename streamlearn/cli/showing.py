"""Commands that draw: pictures of a model, a page about it, and a demonstration."""

from __future__ import annotations

import click
from click import argument, option

from ..data.files.regular import refuse_unwritable
from ..data.write.place import name_of, refuse_source
from .group import command
from .options import load_model, one_or_all, parse_names, parse_numbers, settings_of
from .output import report


@command(
    "plot model.slm --output pictures",
    "plot model.slm -o pictures --data all.parquet --target y",
    "plot model.slm -o pictures --data all.parquet --rows 0,17",
    "plot model.slm -o pictures --compare m.slm",
    output=option(
        "--output", "-o", default=".", show_default=True, help="Folder for the pictures."
    ),
    features=option(
        "--features",
        callback=parse_names,
        help="Columns to draw, separated by commas; default the 12 that matter most.",
    ),
    data=option("--data", help="Rows for --target or --rows."),
    target=option(
        "--target", "-t", help="Column with the classes: predicted probabilities against theirs."
    ),
    rows=option(
        "--rows",
        callback=parse_numbers,
        metavar="N,...",
        help="Numbers of up to 12 rows of --data, from 0: how the terms of each add up.",
    ),
    compare=option("--compare", metavar="FILE", help="Another model of the same columns."),
)
def plot(
    model_file: str,
    output: str,
    features: list[str] | None,
    data: str | None,
    target: str | None,
    rows: list[int] | None,
    compare: str | None,
    memory_budget: str | None,
    json_output: bool,
) -> None:
    """Draw MODEL_FILE as PNG pictures.

    Its terms, how its fit converged, with --data and --target its calibration, with --data and
    --rows how the terms add up in these rows.  With --compare the curves of two additive models
    together instead, and a table of how far apart they are over the rows of the first.
    """
    from ..plotting import draw_comparison, draw_model

    if compare is not None:
        if not (data is None and target is None and rows is None):
            raise click.UsageError("--compare reads no rows; leave --data, --target and --rows out")
        path, distances = draw_comparison((model_file, compare), output, features)
        found = {"plots": [path], "facts": distances.facts, "distances": distances.columns}
        report(found, f"{distances}\n\nwritten to {path}", json_output=json_output)
        return
    if (data is None) != (target is None and rows is None):
        raise click.UsageError("--data goes together with --target or --rows")
    model = load_model(model_file, target)
    with settings_of(memory_budget):
        paths = draw_model(model, output, features, data, target, rows)
    report(
        {"plots": paths}, "\n".join(f"written to {path}" for path in paths), json_output=json_output
    )


@command(
    "report model.slm --output report.html",
    "report model.slm all.parquet --target y -o report.html",
    name="report",
    data=argument("data", nargs=-1),
    output=option(
        "--output", "-o", default="report.html", show_default=True, help="File for the page."
    ),
)
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
    refuse_unwritable(output, local=True)
    refuse_source(output, [name_of(one) for one in (model_file, *data)])
    model = load_model(model_file, target, weight)
    source = one_or_all(data) or None
    with settings_of(memory_budget):
        path = model.report(source, target, weight, output=output)
    report({"report": path}, f"written to {path}", json_output=json_output)


@command(
    "demo --rows 20000 --plots .",
    rows=option("--rows", type=click.IntRange(min=1000), help="Rows to write; default 3 million."),
    folder=option(
        "--folder", default=None, help="Where to write; default a temporary folder, removed."
    ),
    overwrite=option(
        "--overwrite", is_flag=True, help="Replace what an earlier demo left in the folder."
    ),
    plots=option("--plots", default=".", show_default=True, help="Folder for the plots."),
    memory_budget=option(
        "--memory-budget", "-m", metavar="SIZE", default="64MiB", show_default=True
    ),
)
def demo(
    rows: int | None,
    folder: str | None,
    overwrite: bool,
    plots: str,
    memory_budget: str,
    json_output: bool,
) -> None:
    """Train on more data than memory, now.

    Writes a table several times larger than the memory budget, fits it, and shows the peak of
    memory beside what other ways need.
    """
    from ..demo import run_demo

    say = (lambda text: None) if json_output else click.echo
    result = run_demo(rows, folder, plots, memory_budget, say, overwrite=overwrite)
    if json_output:
        report(result, "", json_output=True)
