"""Kinds by which columns become features: what a user asked for, checked against the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...data.column_types import CATEGORIES, TIMES
from ...data.encoding import KINDS

SPOKEN = {*CATEGORIES, *TIMES}
"""Types of columns that are no plain numbers."""
LEVELS = "levels"
"""Kind of a category that stays one, for families that have levels of their own."""


def choose_kinds(
    types: Mapping[str, str],
    names: Sequence[str],
    chosen: Mapping[str, str] | None,
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
        kind, dtype = chosen.get(name), types.get(name, "float64")
        if kind is not None and kind not in every:
            raise ValueError(
                f"encoding={{{name!r}: {kind!r}}}: use one of {', '.join(map(repr, every))}"
            )
        fits = _fitting(dtype, own)
        if kind is not None and kind not in fits:
            raise ValueError(
                f"encoding={{{name!r}: {kind!r}}} does not fit the column, which is {dtype}; use "
                f"one of {', '.join(map(repr, fits))}"
            )
        if sparse and kind not in (None, "number"):
            raise ValueError(
                f"encoding={{{name!r}: {kind!r}}}: columns of a sparse table are numbers and stay "
                "sparse; encode the column before it is joined to the table"
            )
        if dtype in CATEGORIES:
            kinds[name] = kind
        elif dtype in TIMES and dtype != "duration":
            if kind != "number":
                kinds[name] = "cyclic"
        elif kind in ("indicator", "target"):
            kinds[name] = kind
    return kinds


def _fitting(dtype: str, own: str) -> tuple[str, ...]:
    """The kinds that a column of this type may have; `own` is that of categories of few levels."""
    if dtype in CATEGORIES:
        return (own, "target")
    if dtype in TIMES and dtype != "duration":
        return ("number", "cyclic")
    return ("number", "target") if own == LEVELS else ("number", "indicator", "target")
