"""A summary as a table that a person can read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .facts import ColumnFacts, ColumnSummary
from .labels import Labels

MAX_COLUMNS = 40
MAX_CLASSES = 12
MAX_LEVELS = 6
_HEADER = (
    *("column", "missing", "distinct", "zeros"),
    *("min", "25 %", "median", "75 %", "max", "mean", "std"),
)


def format_summary(
    columns: ColumnFacts,
    labels: Labels | None,
    *,
    n_rows: int,
    total_weight: float,
    n_missing_chunks: int,
) -> str:
    """The table, the target and what to be careful about."""
    weights = ""
    if total_weight != n_rows:
        weights = f" (total weight {total_weight:,.6g})"
    lines = [f"{n_rows:,} rows{weights}, {len(columns)} columns", ""]
    lines += _column_table(columns)
    lines += _missing_lines(columns)
    lines += [_levels_line(columns[columns.names.index(name)]) for name in columns.levels]
    if n_missing_chunks:
        lines.append(f"{n_missing_chunks:,} chunks are not stored: their cells are the fill value.")
    if not columns.few.all():
        lines.append(
            "Quantiles are within 1/32 of the value and, of values of one sign within a factor of "
            "2, 1/500 of their range; min and max are exact."
        )
    if labels is not None:
        lines += ["", *_label_lines(labels)]
    if labels is not None and labels.order_bias:
        lines += [
            "",
            f"The rows look sorted by {labels.name!r}: {labels.order_bias.text}.",
            "Solvers that visit rows in order mix several parts of the data at a time.",
        ]
    return "\n".join(lines)


def _column_table(columns: ColumnFacts) -> list[str]:
    if len(columns) > MAX_COLUMNS:
        half = MAX_COLUMNS // 2
        shown = [*map(_row, columns[:half]), None, *map(_row, columns[-half:])]
    else:
        shown = [*map(_row, columns)]
    rows = [row for row in shown if row is not None]
    widths = [max(len(row[k]) for row in [_HEADER, *rows]) for k in range(len(_HEADER))]
    gap = f"... {len(columns) - MAX_COLUMNS} more columns ..."
    lines = []
    for row in [_HEADER, *shown]:
        if row is None:
            lines.append(gap)
            continue
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]))
    return lines


def _row(column: ColumnSummary) -> tuple[str, ...]:
    name = column.name if len(column.name) <= 24 else f"{column.name[:11]}..{column.name[-11:]}"
    distinct = "> 256" if column.values is None else str(len(column.values))
    total = column.count + column.missing + column.infinite
    numbers: list[str] = []
    if column.count and column.levels is None:
        q = column.quantile([0.25, 0.5, 0.75])
        spread = column.variance**0.5
        numbers = [_number(x) for x in (column.min, *q, column.max, column.mean, spread)]
    return (
        name,
        _share(column.missing + column.infinite, total),
        distinct,
        _share(column.zeros if column.levels is None else 0, total),
        *(numbers or ["-"] * 7),
    )


def _missing_lines(columns: ColumnFacts) -> list[str]:
    missing, infinite = (
        [columns[int(j)] for j in np.flatnonzero(counts)]
        for counts in (columns.missing, columns.infinite)
    )
    lines = []
    for some, what, count in (
        (missing, "Missing", lambda c: c.missing),
        (infinite, "Infinite", lambda c: c.infinite),
    ):
        if some:
            lines.append(f"{what} values in {_plural(len(some), 'column')}: {_worst(some, count)}.")
    return lines or ["No missing or infinite values."]


def _levels_line(column: ColumnSummary) -> str:
    """The most frequent levels of a column of categories."""
    assert column.levels is not None
    assert column.values is not None
    assert column.value_counts is not None
    counts = dict(zip(column.values.tolist(), column.value_counts.tolist(), strict=True))
    total = column.count + column.missing
    shown = [
        f"{word} {_share(counts.get(float(code), 0), total)}"
        for code, word in enumerate(column.levels[:MAX_LEVELS])
    ]
    more = ", ..." if len(column.levels) > MAX_LEVELS else ""
    what = _plural(len(column.levels), "level")
    rest = f"; missing or none of these: {_share(column.missing, total)}" if column.missing else ""
    return f"{column.name!r} has {what}: {', '.join(shown)}{more}{rest}."


def _worst(columns: list[ColumnSummary], count: Callable[[ColumnSummary], float]) -> str:
    worst = sorted(columns, key=count, reverse=True)[:5]
    listed = ", ".join(f"{c.name} {count(c):,.6g} (first in row {c.first_bad})" for c in worst)
    return listed + (", ..." if len(columns) > 5 else "")


def _label_lines(labels: Labels) -> list[str]:
    bad = labels.missing + labels.infinite
    trouble = f", {bad:,.6g} missing or infinite (first in row {labels.first_bad})" if bad else ""
    head = f"target {labels.name!r}"
    lines = []
    whole = np.dtype(labels.dtype).kind != "f"
    if labels.classes is not None and (whole or len(labels.classes) <= MAX_CLASSES):
        total = max(labels.count, 1e-300)
        lines.append(f"{head}: {_plural(len(labels.classes), 'class')}{trouble}")
        pairs = list(zip(labels.classes.tolist(), labels.counts, strict=True))
        most = pairs
        if len(pairs) > MAX_CLASSES:
            most = sorted(pairs, key=lambda pair: -pair[1])[:MAX_CLASSES]
        lines += [f"  {label!s:<20} {n:>14,.10g}  {n / total:7.2%}" for label, n in most]
        if len(pairs) > MAX_CLASSES:
            lines.append(f"  ... {len(pairs) - MAX_CLASSES} rarer classes")
    else:
        lines.append(
            f"{head}: min {_number(labels.min)}, max {_number(labels.max)}, "
            f"mean {_number(labels.mean)}, std {_number(labels.variance**0.5)}{trouble}"
        )
    return lines


def _number(x: float) -> str:
    return f"{x + 0.0:.5g}"


def _share(part: float, total: float) -> str:
    if not part or not total:
        return "-"
    share = part / total
    return "< 0.01 %" if share < 1e-4 else f"{100 * share:.4g} %"


def _plural(n: int, noun: str) -> str:
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun}es" if noun.endswith("s") else f"{n} {noun}s"
