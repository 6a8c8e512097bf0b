"""Arguments and options that several commands have, and what becomes of their texts."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click
from click import argument, option

import streamlearn as sl

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def parse_names(ctx: click.Context, param: click.Parameter, text: str | None) -> list[str] | None:
    """``a, b`` as the names of two columns."""
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_numbers(ctx: click.Context, param: click.Parameter, text: str | None) -> list[int] | None:
    """``0, 17`` as the numbers of two rows."""
    if text is None:
        return None
    try:
        return [int(word) for word in text.strip("[]").split(",")]
    except ValueError as error:
        raise click.BadParameter(f"expected numbers such as 0,17, got {text!r}") from error


def parse_cuts(ctx: click.Context, param: click.Parameter, text: str | None) -> list[float] | None:
    """``1,2,5`` as the ends of intervals of time."""
    if text is None:
        return None
    try:
        return [float(word) for word in text.strip("[]").split(",")]
    except ValueError as error:
        raise click.BadParameter(f"expected ends of intervals such as 1,2,5, got {text!r}") from (
            error
        )


def parse_at_risk(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> tuple[str, list[float]] | None:
    """``time=1,2,5`` as the column of times and the ends of the intervals."""
    if text is None:
        return None
    name, equals, cuts = text.rpartition("=")
    if not equals or not name:
        raise click.BadParameter(f"expected COLUMN=CUTS such as time=1,2,5, got {text!r}")
    return name, parse_cuts(ctx, param, cuts) or []


def parse_settings(
    ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, object]:
    """``--set C=10 --set solver=newton`` as parameters; `parse_value` says of which values."""
    settings: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"expected NAME=VALUE, got {pair!r}")
        settings[name] = parse_value(value)
    return settings


def parse_value(text: str) -> object:
    """A value of the command line: JSON, a Python literal such as (2,2) or {1: 3.0}, inf, a word.

    Keys of JSON are always words, so that class labels that are numbers are written as Python does.
    """
    if text.strip().lower() in ("inf", "-inf"):
        return float(text)
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            continue
    return text


Option = Callable[[Callable[..., None]], Callable[..., None]]
"""A decorator that adds an option to a function, as click makes it."""

OPTIONS: dict[str, Option] = {
    "data": argument("data", nargs=-1, required=True),
    "model_file": argument("model_file"),
    "target": option("--target", "-t", help="Column with the targets."),
    "weight": option("--weight", "-w", help="Column with sample weights."),
    "features": option("--features", callback=parse_names,
                       help="Feature columns, separated by commas; default all others."),
    "at_risk": option("--at-risk", callback=parse_at_risk, metavar="COLUMN=CUTS",
                      help="Take a row for each interval of time, such as time=1,2,5, that a row "
                      "enters; the target says whether the event ended it."),
    "ordinal_steps": option("--ordinal-steps", callback=parse_names, metavar="CLASSES",
                            help="Take a row for each step that a row comes to on the way to its "
                            "class, of classes in their order, such as low,middle,high."),
    "model_name": option("--model", "model_name", default="AdditiveClassifier", show_default=True,
                         help="Name of the estimator; a wrong name lists them all."),
    "settings": option("--set", "settings", multiple=True, callback=parse_settings,
                       metavar="NAME=VALUE",
                       help="A parameter, such as C=10, n_components=(2,2) or "
                       "class_weight={1:3}; may be repeated."),
    "memory_budget": option("--memory-budget", "-m", metavar="SIZE", help='Such as "256MiB".'),
    "json_output": option("--json", "json_output", is_flag=True, help="Print one JSON object."),
}  # fmt: skip
"""Parameter of a command: its option, unless the command says otherwise."""


def make_model(name: str, settings: dict[str, object]) -> BaseEstimator:
    """An estimator by its public name, with these parameters."""
    known = predictors()
    if name not in known:
        raise ValueError(f"--model {name} is not known; use one of {', '.join(known)}")
    return known[name]().set_params(**settings)


def load_model(
    model_file: str, target: str | None = None, weight: str | None = None
) -> BaseEstimator:
    """The model in a file; no target or weight is among its features."""
    model = sl.load(model_file)
    features = list(map(str, getattr(model, "feature_names_in_", ())))
    for flag, name in (("--target", target), ("--weight", weight)):
        if name in features:
            raise ValueError(
                f"{flag} {name}: the model was trained on the column {name!r}; name another "
                "column, or fit without it (fit --features)"
            )
    return model


def predictors() -> dict[str, type[BaseEstimator]]:
    """The public estimators that predict, by name."""
    from sklearn.base import BaseEstimator

    public = {name: getattr(sl, name) for name in sl.__all__}  # loaded by being asked for
    return {
        name: cls
        for name, cls in public.items()
        if isinstance(cls, type) and issubclass(cls, BaseEstimator) and hasattr(cls, "predict")
    }


def one_or_all(data: tuple[str, ...]) -> str | list[str]:
    """The argument DATA as `open_dataset` takes it."""
    return data[0] if len(data) == 1 else list(data)


def open_rows(
    data: tuple[str, ...],
    target: str | None,
    weight: str | None,
    features: list[str] | None,
    at_risk: tuple[str, list[float]] | None,
    ordinal_steps: list[str] | None,
) -> sl.Dataset:
    """The rows of DATA, or the rows at risk or the ordered steps that are made of them."""
    if at_risk is not None and ordinal_steps is not None:
        raise click.UsageError("--at-risk and --ordinal-steps are two kinds of rows; give one")
    opened = sl.open_dataset(one_or_all(data), target=target, weight=weight, features=features)
    if at_risk is not None:
        return opened.at_risk(*at_risk)
    return opened if ordinal_steps is None else opened.ordinal_steps(ordinal_steps)


def needed_target(command: str, target: str | None) -> str:
    """The option --target, refused where it is left out."""
    if target is None:
        raise click.UsageError(f"{command} needs the targets: --target COLUMN")
    return target


def settings_of(
    memory_budget: str | None, progress: bool = False, max_seconds: str | None = None
) -> AbstractContextManager[None]:
    """The context of a command; what is not asked for stays as the environment says."""
    asked = {
        "memory_budget": memory_budget,
        "progress": progress or None,
        "max_seconds": max_seconds,
    }
    return sl.config_context(**{key: value for key, value in asked.items() if value is not None})
