"""Status of a fit as its checkpoint tells it to another shell or another machine."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from ...config import format_bytes
from ...data.files.regular import refuse_unless_file
from ...data.files.remote import as_os_errors, filesystem, is_url
from ...errors import CheckpointError
from ..checkpoint.manifest import Partial
from ..checkpoint.several import is_of_split, latest_fit
from ..checkpoint.store import MANIFEST
from ..lanes import MergeTree
from ..processes import is_alive

_SHOWN = 10


@dataclass(frozen=True)
class Status:
    """A fit as its checkpoint shows it; prints as a table."""

    place: str
    estimator: str
    state: str
    """``finished``, ``running``, ``stopped``, or ``unknown`` (it runs, or ran, on another host)."""
    host: str
    pid: int
    saved_s: float
    """Seconds since the checkpoint was last written."""
    n_passes: int
    rows_read: int
    bytes_read: int
    seconds: float
    reading: str | None
    """The read that is under way, if a part of it is kept."""
    reading_done: float
    """The share of its lanes, or segments, that is kept."""
    history: list[dict[str, object]]

    def __str__(self) -> str:
        lines = [
            f"{self.estimator} in {self.place}: {self.state}",
            f"process          {self.pid} on {self.host}, saved {self.saved_s:.0f} s ago",
            f"reads            {self.n_passes}, {self.rows_read:,} rows, "
            f"{format_bytes(self.bytes_read)}, {self.seconds:.0f} s",
        ]
        if self.reading is not None:
            lines.append(f"under way        {self.reading}, {self.reading_done:.0%} kept")
        records = self.history[-_SHOWN:]
        if len(self.history) > len(records):
            lines.append(f"the last {len(records)} of {len(self.history)} records:")
        lines += ["  " + ", ".join(f"{k} {_show(v)}" for k, v in r.items()) for r in records]
        return "\n".join(lines)


def read_status(place: str | os.PathLike[str]) -> Status:
    """The status of the fit whose checkpoint is at `place`, a folder or URL; reads one small file.

    Raises
    ------
    CheckpointError
        There is no checkpoint, or it cannot be read.
    """
    said = os.fspath(place).rstrip("/")
    try:
        said = latest_fit(said)
        if is_url(said):
            fs, path = filesystem(said)
            with as_os_errors():
                fs.invalidate_cache()
                text = fs.cat_file(f"{path.rstrip('/')}/{MANIFEST}")
        else:
            refuse_unless_file(Path(said, MANIFEST), CheckpointError)
            text = Path(said, MANIFEST).read_bytes()
        manifest = json.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(
            f"no checkpoint in {said}: no {MANIFEST} there; pass the folder or URL that "
            "fit(checkpoint=...) was given"
        ) from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read the checkpoint in {said}: {error}") from error
    writer = manifest.get("writer", {})
    counters = manifest.get("counters") or {}
    alive = is_alive(writer) if writer else None
    state = {True: "running", False: "stopped", None: "unknown"}[alive]
    partial = manifest["partial"]
    finished = manifest["finished"] is not None and not is_of_split(said)  # others come after it
    return Status(
        place=said,
        estimator=str(manifest["identity"].get("estimator", "fit")),
        state="finished" if finished else state,
        host=str(writer.get("host", "unknown")),
        pid=int(writer.get("pid", 0)),
        saved_s=max(0.0, time.time() - manifest.get("saved", time.time())),
        n_passes=int(counters.get("n_passes", 0)),
        rows_read=int(counters.get("rows_read", 0)),
        bytes_read=int(counters.get("bytes_read", 0)),
        seconds=float(counters.get("seconds", 0.0)),
        reading=None if partial is None else str(partial["name"]),
        reading_done=0.0 if partial is None else _share_done(partial),
        history=list(manifest.get("history", [])),
    )


def _share_done(partial: Partial) -> float:
    _, n = partial["cut"]
    if "n_done" in partial:
        return float(partial["n_done"] / n)
    tree = MergeTree(n)
    lanes = [
        len(tree.lanes_below((level, at))) for level, at in (k["node"] for k in partial["nodes"])
    ]
    return sum(lanes) / n


def _show(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
