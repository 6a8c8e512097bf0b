"""The sections of a report that need data: the rows, and what the model does on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...passes.summary.facts import ColumnSummary
from ...passes.summary.summary import Summary
from .figures import Curve, HeatMap
from .measures import CELLS, LEAST, N_BINS, Measured, borders, grouped, roc
from .page import paragraph, pictures, section, table
from .segments import ERRORS, MOST_COLUMNS, worst
from .svg import draw, number

MOST_SUMMARISED = 100
"""Columns whose facts are listed."""
SHOWN_MASS = 0.98
"""Share of the residuals that their picture holds."""


def sections_of_data(measured: Measured) -> list[str]:
    """All sections that come from data."""
    classifies = len(measured.frame.classes) > 0
    of_model = _of_classifier(measured) if classifies else _of_regressor(measured)
    return [
        _of_rows(measured.frame.model, measured.summary),
        *of_model,
        _of_deciles(measured),
        _of_segments(measured),
    ]


def _of_rows(model: object, summary: Summary) -> str:
    target = summary.target
    made = getattr(model, "encoding_", None)
    what = "columns" if made is None or made.is_plain else "features made of the columns"
    said = f"{summary.n_rows:,} rows, {len(summary.columns):,} {what} that the model uses. "
    if target.classes is not None and len(target.classes) <= 20:
        shares = target.counts / target.counts.sum()
        parts = [f"{label} {s:.1%}" for label, s in zip(target.classes, shares, strict=True)]
        said += f"The target {target.name}: {', '.join(parts)}."
    elif target.kind == "number":
        said += (
            f"The target {target.name}: {number(target.min)} to {number(target.max)}, "
            f"mean {number(target.mean)}, standard deviation {number(target.variance**0.5)}."
        )
    if summary.order_bias:
        said += f" The rows are sorted by the target: {summary.order_bias.text}."
    if len(summary.columns) > MOST_SUMMARISED:
        said += f" The first {MOST_SUMMARISED} columns are listed."
    heads = ["column", "missing", "least", "median", "mean", "largest", "different values"]
    rows = [_facts(column) for column in summary.columns[:MOST_SUMMARISED]]
    return section("The data", paragraph(said), table(rows, heads))


def _facts(column: ColumnSummary) -> list[str]:
    total = column.count + column.missing + column.infinite
    missing = f"{column.missing / total:.1%}" if total and column.missing else "0"
    many = "more than 256" if column.values is None else f"{len(column.values):,}"
    if column.levels is not None:
        return [column.name, missing, "", "", "", "", f"{len(column.levels):,} words"]
    middle = number(float(column.quantile(0.5))) if column.count else ""
    facts = [number(column.min), middle, number(column.mean), number(column.max)]
    return [column.name, missing, *facts, many]


# What a classifier does.


def _of_classifier(measured: Measured) -> list[str]:
    frame, sums = measured.frame, measured.sums
    labels = [str(label) for label in frame.model.classes_[frame.classes]]
    weight, loss, wrong, _ = sums.deciles.sum(axis=1)
    scores = [["accuracy", number(1 - wrong / weight)]]
    if frame.has_probability:
        scores.append(["log-loss", number(loss / weight)])
    binary = len(frame.model.classes_) == 2
    curves = [(labels[-1], sums.curves[-1])] if binary else zip(labels, sums.curves)  # noqa: B905
    rocs, calibrations, worst_error = [], [], 0.0
    for label, curve in curves:
        found = roc(curve)
        if found is None:
            continue
        rocs.append((label, found))
        worst_error = max(worst_error, found.error)
        scores.append([f"area under the ROC curve of {label}", f"{found.area:.4f}"])
        rows, positive, expected = grouped(curve)
        calibrations.append((label, expected / rows, positive / rows))
    note = f"areas are those of the rows one by one within {max(worst_error, LEAST):.1g}"
    drawn = []
    shown = range(0, len(rocs), 4)
    for first in shown:
        part = rocs[first : first + 4]
        grid = np.linspace(0, 1, 101)
        y = np.column_stack([np.interp(grid, r.false_rate, r.true_rate) for _, r in part])
        y[0] = 0.0
        names = [label for label, _ in part]
        drawn.append(
            draw(
                Curve(
                    "ROC",
                    "share of the class found",
                    grid,
                    y,
                    names,
                    note=note,
                    x_label="share of the others taken for it",
                )  # fmt: skip
            )
        )
    if frame.has_probability:
        for first in shown:
            drawn.append(_calibration(calibrations[first : first + 4]))
    if len(frame.classes) < len(frame.model.classes_):
        left = len(frame.model.classes_) - len(frame.classes)
        labels.append(f"{left} others")
    matrix = sums.confusion[: len(labels), : len(labels)]
    rows = [
        [label, *(f"{n:,.6g}" for n in line)] for label, line in zip(labels, matrix, strict=True)
    ]
    said = "A row for each class, a column for each class that was predicted."
    return [
        section("How good it is", table(scores)),
        section("ROC and calibration", pictures(drawn)) if drawn else "",
        section("Confusions", paragraph(said), table(rows, ["class", *labels])),
    ]


def _calibration(parts: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> str:
    grid = np.unique(np.concatenate([[0.0, 1.0], *(x for _, x, _ in parts)]))
    y = np.full((len(grid), len(parts)), np.nan)
    for k, (_, x, share) in enumerate(parts):
        inside = (grid >= x[0]) & (grid <= x[-1])
        y[inside, k] = np.interp(grid[inside], x, share)
    note = "groups of about a tenth of the rows each; grey: calibrated"
    return draw(
        Curve(
            "Calibration",
            "share of the class",
            grid,
            y,
            [label for label, *_ in parts],
            note=note,
            x_label="mean predicted probability",
            diagonal=True,
        )  # fmt: skip
    )


# What a regressor does.


def _of_regressor(measured: Measured) -> list[str]:
    sums = measured.sums
    weight, square, residual, _ = sums.deciles.sum(axis=1)
    variance = measured.summary.target.variance
    scores = [
        ["R\u00b2", number(1 - square / (weight * variance)) if variance > 0 else "no variance"],
        ["root mean squared error", number(float(np.sqrt(square / weight)))],
        ["mean residual", number(residual / weight)],
    ]
    return [
        section("How good it is", table(scores)),
        section("Residuals", pictures([_residuals(measured), _map(measured)])),
    ]


def _residuals(measured: Measured) -> str:
    """The distribution of the residuals, in 40 equal steps over nearly all of them."""
    rows, spread = measured.sums.residuals, measured.frame.spread
    edges = borders() * spread
    ends = np.cumsum(rows) / rows.sum()
    outside = (1 - SHOWN_MASS) / 2
    low = edges[max(int(np.searchsorted(ends, outside)), 1)]
    high = edges[min(int(np.searchsorted(ends, 1 - outside)) + 1, N_BINS - 1)]
    if not high > low:
        low, high = low - spread, high + spread
    steps = np.linspace(low, high, 41)
    share = np.diff(np.interp(steps, edges[1:-1], ends[:-1]))
    y = np.append(share, share[-1])[:, None]
    note = f"{SHOWN_MASS:.0%} of the rows; target less prediction"
    return draw(Curve("Residuals", "share of the rows", steps, y, steps=True, note=note))


def _map(measured: Measured) -> str:
    """Target by prediction, in twelve groups of cells that hold rows along each side."""
    rows, frame = measured.sums.map, measured.frame
    edges = borders(CELLS) * frame.spread + frame.centre
    merged = [_merged(rows.sum(axis=1 - axis)) for axis in (0, 1)]
    values = np.array(
        [[rows[a:b, c:d].sum() for c, d in merged[1]] for a, b in merged[0]]
    )  # fmt: skip
    names = [[_between(edges[a], edges[b]) for a, b in side] for side in merged]
    order = slice(None, None, -1)  # large targets above
    note = "rows, darker where there are more; up the target, to the right the prediction"
    shown = np.sqrt(values[order] / max(values.max(), 1.0))
    return draw(HeatMap("Target by prediction", "rows", names[0][order], names[1], shown, note))


def _merged(rows: np.ndarray, most: int = 14) -> list[tuple[int, int]]:
    """Neighbouring cells in groups, so that no group is empty and few hold nearly nothing."""
    least, out, first, held = rows.sum() / (6 * most), [], 0, 0.0
    for j, n in enumerate(rows):
        held += n
        if held >= least:
            out.append((first, j + 1))
            first, held = j + 1, 0.0
    if not out:
        return [(0, len(rows))]
    out[-1] = (out[-1][0], len(rows))
    while len(out) > most:
        sizes = [rows[a:b].sum() for a, b in out]
        at = int(np.argmin([a + b for a, b in zip(sizes[:-1], sizes[1:], strict=True)]))
        out[at : at + 2] = [(out[at][0], out[at + 1][1])]
    return out


def _between(low: float, high: float) -> str:
    """The name of a cell among ordered ones; the next one's says where it ends."""
    if not np.isfinite(low):
        return f"< {number(high)}"
    return f"\u2265 {number(low)}" if not np.isfinite(high) else f"from {number(low)}"


# What both have.


def _of_deciles(measured: Measured) -> str:
    frame = measured.frame
    parts = grouped(measured.sums.deciles)
    total = parts[0].sum()
    rows: list[list[str]] = []
    for n, loss, error, target in parts.T:
        first = [f"{len(rows) + 1}", f"{n:,.6g}", f"{n / total:.1%}"]
        if not len(frame.classes):
            mean = [number((target - error) / n), number(target / n), number(error / n)]
            rows.append([*first, *mean, number(float(np.sqrt(loss / n)))])
        else:
            more = [number(loss / n)] if frame.has_probability else []
            rows.append([*first, f"{target / n:.1%}", f"{error / n:.1%}", *more])
    heads = ["group", "rows", "share"]
    if not len(frame.classes):
        said = "Rows in tenths by their prediction, the smallest first."
        heads += ["mean prediction", "mean target", "mean residual", "root mean squared error"]
    else:
        binary = len(frame.model.classes_) == 2
        label = frame.model.classes_[-1]
        what = f"the score of {label}" if binary else "the score of the class predicted"
        said = f"Rows in tenths by {what}, the smallest first."
        heads += [f"share of {label}" if binary else "expected right", "wrong"]
        heads += ["mean log-loss"] if frame.has_probability else []
    said += " All rows of one bin are in one group, so groups can differ in size."
    return section("Errors by decile", paragraph(said), table(rows, heads))


def _of_segments(measured: Measured) -> str:
    frame, sums = measured.frame, measured.sums
    found = worst(frame.cuts, sums.segments)
    weight, loss = (float(total) for total in sums.deciles.sum(axis=1)[:2])
    what = "squared error"
    if len(frame.classes):
        what = "log-loss" if frame.has_probability else "share of errors"
    said = f"The mean {what} of all rows is {number(loss / weight)}. "
    if len(measured.summary.columns) > MOST_COLUMNS:
        said += f"Only the first {MOST_COLUMNS} columns are cut into segments. "
    if not found:
        said += f"No segment of one column is worse by more than {ERRORS:g} standard errors."
        return section("Where it is worst", paragraph(said))
    said += (
        f"These segments of one column are worse by more than {ERRORS:g} standard errors, those "
        "that are worst beyond doubt first."
    )
    rows = [
        [one.name, f"{one.weight:,.6g}", f"{one.weight / weight:.1%}", number(one.loss),
         f"{one.loss * weight / loss:.2f} x"]
        for one in found
    ]  # fmt: skip
    heads = ["segment", "rows", "share", f"mean {what}", "of all rows"]
    return section("Where it is worst", paragraph(said), table(rows, heads))
