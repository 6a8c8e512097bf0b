"""Settings of a fit that are no part of the model: memory, scheduler, progress, scratch.

Read from `config_context` first, then from the environment: ``STREAMLEARN_MEMORY_BUDGET``,
``STREAMLEARN_SCHEDULER``, ``STREAMLEARN_PROGRESS``, ``STREAMLEARN_SCRATCH``,
``STREAMLEARN_MAX_SECONDS``, ``STREAMLEARN_TRUST_COPIES``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal

UNSET: Any = object()
_WORDS = {"1": True, "true": True, "yes": True, "on": True}
_WORDS |= {"0": False, "false": False, "no": False, "off": False, "": False}


@dataclass(frozen=True)
class Config:
    """The settings in force."""

    memory_budget: int | None = None
    """Bytes a fit may add to each process; None = a quarter of the memory that is available."""
    scheduler: object = None
    """None (the active dask client, else threads), ``"threads"``, ``"synchronous"``,
    ``"distributed"`` or a `distributed.Client`."""
    progress: bool = False
    """Draw one progress bar for each read."""
    scratch: str | Literal[False] | None = None
    """Folder for scratch files; None = dask's ``temporary-directory``, else the system's place;
    False = none allowed."""
    storage_options: Mapping[str, object] | None = None
    """Options for fsspec with every URL (data, checkpoint, model, predictions) that is opened
    without options of its own."""
    max_seconds: float | None = None
    """Seconds a fit may take; then it stops with what it finished in its checkpoint."""
    trust_copies: bool = False
    """Take files of the same names and sizes for the same content, whatever their times of change
    and inodes: for tables that were copied between a kill and its resume, or lie on each worker."""


def parse_bytes(size: int | float | str) -> int:
    """Bytes of ``"1GiB"``, ``"64 MB"``, ``1e9``.

    Examples
    --------
    >>> parse_bytes("64MiB")
    67108864
    """
    from dask.utils import parse_bytes as parse

    try:
        n_bytes = int(parse(size))
    except (ValueError, TypeError, AttributeError, OverflowError):
        n_bytes = -1
    if n_bytes <= 0 or isinstance(size, bool):
        raise ValueError(f'a size in bytes was expected, such as "1GiB" or 64e6, got {size!r}')
    return n_bytes


def parse_seconds(seconds: float | str) -> float:
    """Seconds of ``3600``, ``"90s"``, ``"2h"``, ``"30 minutes"``.

    Examples
    --------
    >>> parse_seconds("2h")
    7200.0
    """
    from dask.utils import parse_timedelta

    try:
        n_seconds = float(parse_timedelta(seconds))
    except (ValueError, TypeError, KeyError, AttributeError):
        n_seconds = -1.0
    if not 0 < n_seconds < float("inf") or isinstance(seconds, bool):
        raise ValueError(f'a time was expected, such as 3600 or "2h", got {seconds!r}')
    return n_seconds


def format_bytes(n_bytes: float) -> str:
    """``"1.5 MiB"``: the way sizes are written in messages and tables."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.1f} TiB"


_ACTIVE: ContextVar[Config | None] = ContextVar("streamlearn_config", default=None)


def get_config() -> Config:
    """The settings in force: those of the innermost `config_context`, else the environment's.

    Examples
    --------
    >>> from streamlearn import config_context, get_config
    >>> with config_context(memory_budget="256MiB"):
    ...     get_config().memory_budget
    268435456
    """
    config = _ACTIVE.get()
    return _from_environment() if config is None else config


@contextmanager
def config_context(
    *,
    memory_budget: int | float | str | None = UNSET,
    scheduler: object = UNSET,
    progress: bool = UNSET,
    scratch: str | os.PathLike[str] | Literal[False] | None = UNSET,
    storage_options: Mapping[str, object] | None = UNSET,
    max_seconds: float | str | None = UNSET,
    trust_copies: bool = UNSET,
) -> Iterator[Config]:
    """Change settings inside a ``with`` block; what is not given stays as it was.

    Parameters
    ----------
    memory_budget : int, float or str
        Bytes each process may use over its memory before the fit, such as ``"1GiB"``; None for a
        quarter of the memory that is available, containers' limits counted.
    scheduler : str or distributed.Client
        None: the active dask client if there is one, else threads (as many as dask's
        ``num_workers``, default one a core).  ``"threads"``, ``"synchronous"``, ``"distributed"``.
    progress : bool
        Draw progress bars.
    scratch : path or False
        Where scratch files go; False forbids them.
    storage_options : dict
        Given to fsspec with every URL: ``{"key": ..., "secret": ..., "endpoint_url": ...}``.  What
        the environment tells (``AWS_*``, ``FSSPEC_*``) needs no options.
    max_seconds : float or str
        Such as 3600 or ``"2h"``.  A fit that has taken longer stops at the next end of a lane with
        `TimeLimitError`; the same line run again goes on.  Needs ``checkpoint=``.
    trust_copies : bool
        Whether a file of the name and size (and footer, if it is parquet) that a fit began with is
        the same one though its time of change or inode is another.  Without it such a file is
        refused, when it is read and when a checkpoint is resumed.  Say it when you have copied the
        table yourself, to another host or to each worker: nothing then looks at the content.

    Examples
    --------
    >>> from streamlearn import config_context
    >>> with config_context(memory_budget="1GiB", max_seconds="2h") as config:
    ...     config.memory_budget, config.max_seconds
    (1073741824, 7200.0)
    """
    changes: dict[str, Any] = {}
    if memory_budget is not UNSET:
        changes["memory_budget"] = None if memory_budget is None else parse_bytes(memory_budget)
    if scheduler is not UNSET:
        changes["scheduler"] = scheduler
    if progress is not UNSET:
        changes["progress"] = bool(progress)
    if scratch is not UNSET:
        if not (scratch is None or scratch is False or isinstance(scratch, str | os.PathLike)):
            raise ValueError(f"scratch must be a folder, None (default) or False, got {scratch!r}")
        changes["scratch"] = os.fspath(scratch) if scratch else scratch
    if storage_options is not UNSET:
        if not (storage_options is None or isinstance(storage_options, Mapping)):
            raise ValueError(f"storage_options must be a dict or None, got {storage_options!r}")
        changes["storage_options"] = storage_options
    if max_seconds is not UNSET:
        changes["max_seconds"] = None if max_seconds is None else parse_seconds(max_seconds)
    if trust_copies is not UNSET:
        changes["trust_copies"] = bool(trust_copies)
    token = _ACTIVE.set(replace(get_config(), **changes))
    try:
        yield get_config()
    finally:
        _ACTIVE.reset(token)


def _from_environment() -> Config:
    """The settings the environment asks for."""
    get = os.environ.get
    budget = get("STREAMLEARN_MEMORY_BUDGET")
    folder = get("STREAMLEARN_SCRATCH") or None
    forbidden = folder is not None and _WORDS.get(folder.lower()) is False
    seconds = get("STREAMLEARN_MAX_SECONDS")
    switches = {}
    for name in ("PROGRESS", "TRUST_COPIES"):
        word = get(f"STREAMLEARN_{name}", "0").lower()
        if word not in _WORDS:
            raise ValueError(f"STREAMLEARN_{name} must be 0 or 1, got {word!r}")
        switches[name] = _WORDS[word]
    return Config(
        memory_budget=parse_bytes(budget) if budget else None,
        scheduler=get("STREAMLEARN_SCHEDULER") or None,
        progress=switches["PROGRESS"],
        scratch=False if forbidden else folder,
        max_seconds=parse_seconds(seconds) if seconds else None,
        trust_copies=switches["TRUST_COPIES"],
    )
