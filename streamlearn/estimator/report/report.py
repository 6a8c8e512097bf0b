"""The report of a fitted model: what it is, what it learned, and on data how it does."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ... import __version__
from ...data.files.regular import refuse_unwritable
from ..convergence import EPSILON, ONE_READ, ConvergenceDisplay
from ..facts import Parts, facts_of
from .figures import BAND, MOST_ROWS, Curve, Reported, Rows, with_few_lines
from .measures import measure
from .page import folded, page, paragraph, pictures, section, table
from .quality import sections_of_data
from .svg import draw, number, y_range


def write_report(
    model: Reported,
    data: object,
    y: object,
    sample_weight: object,
    output: str | os.PathLike[str] | None,
) -> str:
    """The page as text, or written to `output`, whose path is returned."""
    check_is_fitted(model)
    if output is not None:
        refuse_unwritable(output, local=True)
    if data is None and (y is not None or sample_weight is not None):
        raise ValueError(
            "report got y or sample_weight without data; pass the rows too, or leave both out"
        )
    name = type(model).__name__
    facts = [list(fact) for fact in facts_of(model)]
    sections = [
        table(facts, left=2, wide=False),
        _of_history(model),
        _of_parts(model._parts()),
        _of_figures(model),
    ]
    if data is None:
        sections.append(
            section(
                "On data",
                paragraph(
                    "Given rows with their target, the report also says how good the model is on "
                    "them, where it is worst, and how well it is calibrated."
                ),
            )
        )
    else:
        sections += sections_of_data(measure(model, data, y, sample_weight))
    whole = page(name, sections, f"streamlearn {__version__}")
    if output is None:
        return whole
    path = Path(output)
    path.write_text(whole, encoding="utf-8")
    return str(path)


def _of_history(model: Reported) -> str:
    """The section of the report on the course of the fit and its plan."""
    went = ConvergenceDisplay(model.history_)
    gap = np.log10(np.maximum(went.gap, EPSILON))
    series = (
        ("relative gap", "power of ten", gap),
        ("objective", "objective", went.objective),
        ("lower bound", "lower bound", went.bound),
        ("validation loss", "validation loss", went.validation_loss),
    )
    drawn = []
    for title, unit, y in series:
        if np.isfinite(y).sum() > 1:
            x = went.reads if (np.diff(went.reads) > 0).all() else np.arange(1, len(y) + 1)
            y = np.where(np.isfinite(y), y, np.nan)
            drawn.append(
                draw(Curve(title, unit, x, y[:, None], x_label="reads or steps after the summary"))
            )
    said = "" if drawn else paragraph(ONE_READ if model.history_ else "The fit kept no history.")
    plan = folded("the plan of memory and reads", str(model.plan_)) if model.plan_ else ""
    return section("How the fit went", said, pictures(drawn), plan)


def _of_parts(parts: Parts) -> str:
    if not parts.parts:
        return ""
    shown = parts.parts[:MOST_ROWS]
    more = len(parts.parts) - len(shown)
    notes = [f"{more:,} more are left out"] if more else []
    y, errors = np.array([(part.size, part.error) for part in shown]).T[:, :, None]
    heads, band = [parts.noun, parts.measure], None
    lines = [[part.name, number(part.size)] for part in shown]
    if np.isfinite(errors).any():
        reach = BAND * np.nan_to_num(errors)  # of what was edited it is not known: no whisker
        band = np.maximum(y - reach, 0.0), y + reach
        notes.insert(0, "whiskers: 1.96 standard errors to both sides")
        heads.append("standard error")
        lines = [[*line, number(part.error)] for line, part in zip(lines, shown, strict=True)]
    names = [part.name for part in shown]
    figure = Rows("", parts.measure, names, y, band=band, note="; ".join(notes))
    listed = table(lines, heads)
    return section(
        "What it consists of",
        pictures([draw(figure), f"<details><summary>as a table</summary>{listed}</details>"]),
    )


def _of_figures(model: Reported) -> str:
    said, figures = model._figures()
    drawn = [with_few_lines(figure) for figure in figures]
    limits = {
        label: y_range([one for one in drawn if one.y_label == label])
        for label in {figure.y_label for figure in drawn}
    }
    if not drawn:
        return ""
    panels = [draw(figure, limits[figure.y_label]) for figure in drawn]
    return section("What it learned", paragraph(said), pictures(panels))
