"""Kinds by which columns become features: what a user asked for, checked against the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TypeAlias, TypeGuard, cast

from ...data.column_types import CATEGORIES, TIMES
from ...data.encoding import KINDS, Coding

SPOKEN = {*CATEGORIES, *TIMES}
"""Types of columns that are no plain numbers."""
LEVELS = "levels"
"""Kind of a category that stays one, for families that have levels of their own."""
Chosen: TypeAlias = Mapping[str, str | float]
"""Choice of a user, by column: a kind, or the period of a column of numbers."""


def choose_kinds(
    types: Mapping[str, str],
    names: Sequence[str],
    chosen: Chosen | None,
    *,
    sparse: bool,
    keeps_levels: bool,
) -> dict[str, str | None]:
    """The kind of each column that is no plain number; None: categories, by how many there are.

    Parameters
    ----------
    types : mapping
        Type of each column as stored.
    names : sequence of str
        The columns.
    chosen : mapping, optional
        What the user asked for.
    sparse : bool
        Whether the table is sparse.
    keeps_levels : bool
        Whether the family has levels of its own, and takes no indicators.

    Raises
    ------
    ValueError
        A column that is not there, a kind that is not known, or one that does not fit the column.
    """
    if not chosen and not SPOKEN & set(types.values()):
        return {}  # without a look at each of very many columns
    chosen = dict(chosen or {})
    unknown = [str(name) for name in chosen if name not in set(names)]
    if unknown:
        raise ValueError(
            f"encoding names the column {unknown[0]!r}, which is not among the features; they are "
            f"{', '.join(map(repr, list(names)[:10]))}"
        )
    own = LEVELS if keeps_levels else "indicator"
    every = tuple(own if kind == "indicator" else kind for kind in KINDS)
    kinds: dict[str, str | None] = {}
    for name in names:
        said, dtype = chosen.get(name), types.get(name, "float64")
        kind = "cyclic" if is_period(said) else cast("str | None", said)
        if kind is not None and kind not in every:
            raise ValueError(
                f"encoding={{{name!r}: {said!r}}}: use one of {', '.join(map(repr, every))}, or "
                "the period of a column of numbers"
            )
        fits = _fitting(dtype, own)
        is_number = "cyclic" not in fits and dtype not in CATEGORIES
        if is_period(said) and is_number:
            if not 0 < said < math.inf:
                raise ValueError(
                    f"encoding={{{name!r}: {said!r}}}: a period is a finite number above 0"
                )
        elif kind is not None and (is_period(said) or kind not in fits):
            more = ", or its period: the number after which it begins again" if is_number else ""
            raise ValueError(
                f"encoding={{{name!r}: {said!r}}} does not fit the column, which is {dtype}; use "
                f"one of {', '.join(map(repr, fits))}{more}"
            )
        if sparse and kind not in (None, "number"):
            raise ValueError(
                f"encoding={{{name!r}: {said!r}}}: columns of a sparse table are numbers and stay "
                "sparse; encode the column before it is joined to the table"
            )
        if dtype in CATEGORIES:
            kinds[name] = kind
        elif not is_number:
            if kind != "number":
                kinds[name] = "cyclic"
        elif kind not in (None, "number"):
            kinds[name] = kind
    return kinds


def is_period(said: object) -> TypeGuard[float]:
    """Whether what a user asked for of a column is a period, and no kind by its name."""
    return isinstance(said, Real) and not isinstance(said, bool)


def circles_of(
    chosen: Chosen | None, keeps_levels: bool, position: int, name: str, dtype: str
) -> Coding:
    """The coding of a column of times, or of numbers with a period."""
    said = (chosen or {}).get(name)
    period = float(said) if is_period(said) else 0.0
    return Coding(position, "clock" if keeps_levels else "cyclic", dtype, period=period)


def _fitting(dtype: str, own: str) -> tuple[str, ...]:
    """The kinds that a column of this type may have; `own` is that of categories of few levels."""
    if dtype in CATEGORIES:
        return (own, "target")
    if dtype in TIMES and dtype != "duration":
        return ("number", "cyclic")
    return ("number", "target") if own == LEVELS else ("number", "indicator", "target")
