"""The folders of fits that one checkpoint holds: those of every split, and the one to all rows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ...data.files.remote import as_os_errors, filesystem, is_url
from .log import Log
from .store import Checkpoint

Tree = dict[str, object]
"""Names and what an archive holds: arrays, numbers, strings, lists and dictionaries of them."""
ALL_ROWS = "all-rows"
_OF_SPLIT = re.compile(r"split-(\d+)-(\d+)")


def of_split(place: str | None, split: int, number: int) -> str | None:
    """The folder of fit `number` without the rows of a split, both from 0."""
    return None if place is None else f"{place}/split-{split + 1}-{number + 1}"


def scores_of_split(place: str, split: int) -> str:
    """The folder of the scores on the rows of a split, from 0."""
    return f"{place}/split-{split + 1}-scores"


def of_all_rows(place: str | None) -> str | None:
    """The folder of the last fit."""
    return None if place is None else f"{place}/{ALL_ROWS}"


def once(place: str, identity: Mapping[str, object], make: Callable[[], Tree]) -> Tree:
    """The result of `make`, which the next call finds in the folder `place`.

    Work that was killed half-way is done again from its start.
    """
    checkpoint = Checkpoint(place, identity)
    log = Log(checkpoint)
    kept: Tree | None = log.finished()
    if kept is None:
        with checkpoint.locked():
            kept = make()
            log.finish(kept)
    return kept


def is_of_split(place: str) -> bool:
    """Whether the folder is that of one fit of many."""
    return _OF_SPLIT.fullmatch(place.rpartition("/")[2]) is not None


def latest_fit(place: str) -> str:
    """The folder of the fit that was begun last; `place` itself where it holds one fit's files."""
    if is_url(place):
        fs, path = filesystem(place)
        with as_os_errors():
            fs.invalidate_cache()
            names = [str(name).rstrip("/").rpartition("/")[2] for name in fs.ls(path, detail=False)]
    else:
        names = os.listdir(place) if Path(place).is_dir() else []
    fits = [name for name in names if name == ALL_ROWS or _OF_SPLIT.fullmatch(name)]
    return f"{place}/{max(fits, key=_order)}" if fits else place


def _order(name: str) -> tuple[float, ...]:
    found = _OF_SPLIT.fullmatch(name)
    return (float("inf"),) if found is None else tuple(map(float, found.groups()))
