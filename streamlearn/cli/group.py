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
from collections.abc import Callable, Iterable

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
        except KeyboardInterrupt:
            click.echo("interrupted; run the same line again to go on from a checkpoint", err=True)
            sys.exit(INTERRUPTED)
        click.echo("error: " + with_flags(" ".join(told.split()), self.commands.values()), err=True)
        sys.exit(code)


def with_flags(text: str, commands: Iterable[click.Command]) -> str:
    """A message of the library with its keyword arguments as the options of the command line."""
    options = [option for command in commands for option in command.params if option.opts]
    for option in options:
        if isinstance(option, click.Option):
            flag = max(option.opts, key=len)
            name = flag.removeprefix("--").replace("-", "_")
            text = re.sub(rf"\b{name}=True\b", flag, text)
            text = re.sub(rf"(?<![\w'-]){name}=(?=[\w'\"(\[.])", f"{flag} ", text)
            text = re.sub(rf"(?<![\w'-]){name}=", flag, text)
            if "_" in name:
                text = re.sub(rf"(?<![\w'-]){name}\b", flag, text)
    return text


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
