"""Output of the commands: text, JSON and files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def report(result: object, text: str, *, json_output: bool) -> None:
    """Print a result for a person, or as one JSON object."""
    click.echo(json.dumps(as_json(result), indent=2) if json_output else text)


def fields_of(record: DataclassInstance) -> dict[str, object]:
    """The public fields of a dataclass by name; their values are not copied."""
    names = [field.name for field in dataclasses.fields(record)]
    return {name: getattr(record, name) for name in names if not name.startswith("_")}


def as_json(value: object) -> object:
    """A JSON image of results; numbers that JSON lacks become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = fields_of(value)
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | str | None) else str(value)


@contextlib.contextmanager
def warned() -> Iterator[None]:
    """Warnings of what is done here as lines on standard error, at its end."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        yield
    for warning in caught:
        click.echo(f"warning: {warning.message}", err=True)
