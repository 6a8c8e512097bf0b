"""The table that a statistician reads: a line a term, and what holds for the whole fit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ..smooth.posterior import Posterior

LEAST_P = 1e-16
"""p-values below this are printed as being below it: rounding is in the way."""

IN_OWN_UNITS = ("p-value", "importance", "std error", "distance", "size, first", "size, second")
"""Columns of numbers of any size, printed to three digits."""


class SummaryTable(NamedTuple):
    """Numbers of each term: print it, or take its columns (``pd.DataFrame(columns)``).

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveRegressor
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> y = X[:, 0] + 0.1 * np.sin(1e4 * X[:, 0])
    >>> table = AdditiveRegressor(smoothness="reml").fit(X, y).summary_table()
    >>> round(table.facts["deviance explained"], 2)
    0.94
    >>> table.columns["term"]
    ['x0']
    """

    facts: dict[str, str | float]
    """The figures of the whole fit, by name."""
    columns: dict[str, list[str] | list[float]]
    """A value a term: "term", "importance", "std error", "edf", "reference df", "F" or "chi2 / df",
    "p-value"."""

    def after_edits(self, terms: Collection[str]) -> SummaryTable:
        """The table of a model whose `terms` were edited: nothing is known of these, nor of all."""
        changed = [name in terms for name in self.columns["term"]]
        columns: dict[str, list[str] | list[float]] = {}
        for name, values in self.columns.items():
            told = name in ("term", "class", "importance")
            columns[name] = values if told else np.where(changed, np.nan, values).tolist()
        facts = {name: fact for name, fact in self.facts.items() if name != "deviance explained"}
        return SummaryTable({**facts, "edited after the fit": ", ".join(terms)}, columns)

    def __str__(self) -> str:
        names = list(self.columns)
        rows = [
            [_text(name, value) for name, value in zip(names, row, strict=True)]
            for row in zip(*self.columns.values(), strict=True)
        ]
        wide = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        left = [name == "term" or name == "class" for name in names]
        lines = [f"{name}: {_fact(value)}" for name, value in self.facts.items()]
        lines.append("")
        for row in [names, *rows]:
            cells = [
                cell.ljust(n) if is_left else cell.rjust(n)
                for cell, n, is_left in zip(row, wide, left, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


def make_table(
    posterior: Posterior,
    names: list[str],
    classes: list[str],
    facts: dict[str, str | float],
    known: bool,
    importances: Sequence[np.ndarray],
) -> SummaryTable:
    """The table of a model.

    `classes`: the names of several outputs; `known`: whether the dispersion is 1; `importances`:
    (p,) those of one output, and their standard errors; none of several.
    """
    K = len(posterior.scale)
    freedom = float(posterior.total_freedom.sum())
    left = 1.0 - float(posterior.losses.sum()) / max(float(posterior.null_losses.sum()), 1e-300)
    facts = facts | {
        "rows (by weight)": posterior.weight,
        "effective degrees of freedom": freedom,
        "deviance explained": left,
    }
    if not known and K == 1:
        facts["scale"] = float(posterior.scale[0])
    kept = np.isfinite(posterior.weights).all(axis=0)
    terms = [name for name, has_curve in zip(names, kept, strict=True) if has_curve]
    columns: dict[str, list[str] | list[float]] = {}
    if classes:
        columns["class"] = [label for label in classes for _ in terms]
    columns["term"] = terms * K
    for name, value in zip(("importance", "std error"), importances, strict=False):
        columns[name] = value[kept].tolist()
    values = {
        "edf": posterior.freedom,
        "reference df": posterior.reference_freedom,
        "chi2 / df" if known else "F": posterior.statistic,
        "p-value": posterior.p_value,
    }
    for name, value in values.items():
        columns[name] = value[:, kept].ravel().tolist()
    return SummaryTable(facts, columns)


def _fact(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _text(name: str, value: str | float) -> str:
    if isinstance(value, str):
        return value
    if name == "p-value" and value < LEAST_P:
        return f"< {LEAST_P:g}"
    if name in IN_OWN_UNITS:
        return f"{value:.3g}"
    return f"{value:.2f}"
