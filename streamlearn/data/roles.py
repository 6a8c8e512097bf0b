"""Roles of columns: features, target, weight; a refusal names the columns and says what to do."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SourceError
from .column_types import CATEGORIES, MEASURED, NUMBERS, TIMES, is_number, is_readable, remedy
from .store import Store


def check_columns(
    store: Store,
    types: dict[str, str],
    columns: tuple[str, ...],
    target: str | None,
    weight: str | None,
) -> None:
    refuse_duplicates(columns)
    if not columns:
        raise SourceError("no feature columns: every column is the target or the weight")
    # as sets: a dataset is made anew for each choice, and a wide one has 100,000 names
    if not types.keys() >= set(columns):
        missing = [name for name in columns if name not in types]
        raise SourceError(f"no column {some(missing)}; the columns are {some(list(types))}")
    for role, name in (("target", target), ("weight", weight)):
        if name is not None and name not in types:
            raise SourceError(f"no {role} column {name!r}; the columns are {some(list(types))}")
        if name is not None and name in columns:
            raise SourceError(f"the {role} {name!r} is among the features; leave it out of them")
    allowed = {*NUMBERS, *MEASURED, *(CATEGORIES if store.takes_levels else ())}
    if not allowed.issuperset(map(types.__getitem__, columns)):
        bad = [f"{name!r} ({types[name]})" for name in columns if types[name] not in allowed]
        more = f" and {len(bad) - 10} more" if len(bad) > 10 else ""
        raise SourceError(
            "features must be numbers, times or categories (strings), but these columns "
            f"are not: {', '.join(bad[:10])}{more}; leave them out with features=[...], or make "
            f"numbers of them first{remedy([types[name] for name in columns])}"
        )
    if target is not None and (types[target] in TIMES or not is_readable(types[target])):
        raise SourceError(
            f"the target {target!r} is {types[target]}; a target is numbers or strings"
            f"{remedy([types[target]])}"
        )
    if weight is not None and (types[weight] in TIMES or not is_number(types[weight])):
        raise SourceError(f"the weight {weight!r} is {types[weight]}; weights are numbers")
    store.check([*columns, *filter(None, (target, weight))])


def refuse_duplicates(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise SourceError(f"columns named twice: {some(twice)}; name each once")


def some(names: Sequence[str], limit: int = 10) -> str:
    shown = ", ".join(map(repr, names[:limit]))
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")
