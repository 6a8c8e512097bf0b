"""The group of all commands, and what becomes of their errors.

Exit codes: 0 done; 1 the data, a parameter or the system stood in the way; 2 wrong usage; 3 the
memory budget is too small; 4 the model is saved, but the fit stopped short of its tolerance; 5 the
fit had its seconds, the same line goes on; 130 interrupted.  Errors are one sentence on standard
error; results go to standard output, as JSON with ``--json``.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping

import click

from ..errors import MemoryBudgetError, StreamlearnError, TimeLimitError
from .options import OPTIONS, Option

DONE, FAILED, USAGE, OVER_BUDGET, NOT_CONVERGED, OUT_OF_TIME, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

OVERVIEW = """\b
From a table to a served model:
  streamlearn demo
  streamlearn describe all.parquet --target y
  streamlearn plan     all.parquet --target y --memory-budget 256MiB
  streamlearn fit      all.parquet --target y --memory-budget 256MiB -o model.slm
  streamlearn evaluate model.slm all.parquet --target y
  streamlearn predict  model.slm all.parquet -o scores.parquet

\b
Exit codes:
  0  done
  1  the data, a parameter or the system stood in the way
  2  wrong usage
  3  the memory budget is too small; the message says what would fit
  4  the model is saved, but the fit stopped short of its tolerance
  5  the fit had its --max-seconds; the same line goes on
  130  interrupted; with --checkpoint the same line goes on
"""


class Commands(click.Group):
    """A group whose commands report expected errors in one sentence."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a known error becomes a line and an exit code."""
        from sklearn.exceptions import NotFittedError

        try:
            return super().invoke(ctx)
        except MemoryBudgetError as error:
            code, told = OVER_BUDGET, str(error)
        except TimeLimitError as error:
            code, told = OUT_OF_TIME, str(error)
        except (StreamlearnError, NotFittedError, ValueError, TypeError, OSError) as error:
            code, told = FAILED, " ".join([str(error), *getattr(error, "__notes__", ())])
        except AttributeError as error:
            if error.name is not None:  # Python's own, of an object that lacks it: a bug
                raise
            code, told = FAILED, str(error)
        except KeyboardInterrupt:
            click.echo("interrupted; run the same line again to go on from a checkpoint", err=True)
            sys.exit(INTERRUPTED)
        told = with_flags(" ".join(told.split()), self.commands, ctx.invoked_subcommand or "")
        click.echo(f"error: {told}", err=True)
        sys.exit(code)


def with_flags(text: str, commands: Mapping[str, click.Command], name: str) -> str:
    """A message of the library with keyword arguments as the options of the command `name`.

    Paths stay as they are, and so do calls but for those of a command, ``fit(checkpoint=...)``,
    and those that an option stands for, ``data.at_risk(...)``.
    """
    flags = _flags(commands[name])
    parts = _KEPT.split(text)  # every second one is kept
    parts[::2] = [_with_flags(part, flags) for part in parts[::2]]
    parts[1::2] = [_call_with_flags(part, commands) for part in parts[1::2]]
    return "".join(parts)


_KEPT = re.compile(r"([\w.]+\((?:[^()]|\([^()]*\))*\)|\S*/\S*)")
"""A call, or a word with a slash."""
_CALL = re.compile(r"(?:\w+\.)?(\w+)\((.*)\)")


def _flags(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by the names that keyword arguments have."""
    options = [option for option in command.params if isinstance(option, click.Option)]
    return {_flag(option).removeprefix("--").replace("-", "_"): option for option in options}


def _flag(option: click.Option) -> str:
    return max(option.opts, key=len)


def _with_flags(text: str, flags: Mapping[str, click.Option]) -> str:
    for name, option in flags.items():
        flag = _flag(option)
        text = re.sub(rf"\b{name}=True\b", flag, text)
        text = re.sub(rf"(?<![\w'-]){name}=(?=[\w'\"(\[.])", f"{flag} ", text)
        text = re.sub(rf"(?<![\w'-]){name}=", flag, text)
        if "_" in name:
            text = re.sub(rf"(?<![\w'-]){name}\b", flag, text)
    return text


def _call_with_flags(text: str, commands: Mapping[str, click.Command]) -> str:
    call = _CALL.fullmatch(text)
    if call is None:
        return text
    name, arguments = call[1], [one.strip() for one in call[2].split(",")]
    if name in commands:
        flags, told = _flags(commands[name]), [name]
        for keyword, _, value in (one.partition("=") for one in arguments if one != "..."):
            if keyword not in flags:
                return text
            told += [_flag(flags[keyword])] + [value] * (value != "...")
        return " ".join(told)
    options = [flags[name] for flags in map(_flags, commands.values()) if name in flags]
    if "_" not in name or not options:
        return text
    return f"{_flag(options[0])} {options[0].metavar}"


@click.group(cls=Commands, epilog=OVERVIEW)
@click.version_option(package_name="streamlearn")
def main() -> None:
    """Train models on data larger than memory.

    DATA is a parquet file, a folder of them, a quoted glob, several of these, a zarr store or a URL
    such as s3://bucket/train/*.parquet.  Nothing is loaded whole: a fit adds at most
    --memory-budget to what the libraries take, by default a quarter of the memory that is free.
    """


def command(
    *examples: str, name: str | None = None, **own: Option
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function a command of `main`, with one option for each of its parameters.

    The option of a parameter is that of `OPTIONS`, or one of `own`.  The examples end the help of
    the command; they can be run one after another, and a test does so.
    """

    def add(function: Callable[..., None]) -> click.Command:
        decorated = function
        for parameter in reversed(inspect.signature(function).parameters):
            decorated = {**OPTIONS, **own}[parameter](decorated)
        epilog = "\b\nExamples:\n" + "\n".join(f"  streamlearn {line}" for line in examples)
        return main.command(name or function.__name__, epilog=epilog)(decorated)

    return add
