"""Comparison of the declared types of a record's fields with the values an archive holds."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType, UnionType

import numpy as np

_NUMBERS: dict[object, tuple[type, ...]] = {
    float: (int, float, np.integer, np.floating),
    int: (int, np.integer),
    bool: (bool, np.bool_),
    np.ndarray: (np.ndarray, np.generic),
    None: (NoneType,),
}
"""Types of values that stand for an annotated one: sums without axes are numbers of numpy."""


def with_floats(kind: type, values: dict[str, object]) -> dict[str, object]:
    """A record's values, those of fields declared float as floats of 64 bits.

    A kernel would be compiled anew for a whole number, or for a float32, in such a place.
    """
    hints = _hints(kind)
    return {
        name: _as_float(name, value) if hints.get(name) is float else value
        for name, value in values.items()
    }


def _as_float(name: str, value: object) -> object:
    if isinstance(value, float) or not isinstance(value, int | np.integer | np.floating):
        return value  # what is no number is refused by its type
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is a whole number beyond all floats") from None


def check_types(record: object) -> None:
    """Raise ValueError unless every field is of the type that the record's class declares."""
    kind: type = type(record)
    for name, hint in _hints(kind).items():
        value = getattr(record, name)  # a dataclass or a named tuple
        if not is_of(value, hint):
            got = type(value).__name__
            raise ValueError(f"{name} of a {kind.__name__} is a {got}, expected {hint}")


@cache
def _hints(kind: type) -> dict[str, object]:
    return typing.get_type_hints(kind)


def is_of(value: object, hint: object) -> bool:
    """Whether a value is of an annotated type; of functions and protocols nothing is known."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint])
    if origin in (typing.Union, UnionType):
        return any(is_of(value, one) for one in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1] is Ellipsis:
            return _are_of(value, inner[0])
        return len(value) == len(inner) and all(map(is_of, value, inner))
    if origin in (list, Sequence):
        return isinstance(value, list | tuple) and _are_of(value, inner[0])
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(
            is_of(key, inner[0]) and is_of(item, inner[1]) for key, item in value.items()
        )
    if origin is typing.Literal:
        return value in inner
    kind = origin or hint
    if kind is typing.Any or not isinstance(kind, type) or typing.is_typeddict(kind):
        return True
    return vars(kind).get("_is_protocol", False) or isinstance(value, kind)


def _are_of(values: Sequence[object], hint: object) -> bool:
    """Whether all values are of the annotated type; very many are looked at by their own type."""
    if set(map(type, values)) <= {hint}:
        return True
    return all(is_of(value, hint) for value in values)
