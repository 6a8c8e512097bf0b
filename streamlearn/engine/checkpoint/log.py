"""The log of one fit: replays what a checkpoint holds, then adds to it; without one only counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...errors import CheckpointError
from .manifest import Entry, KeptCounters, KeptFile
from .store import Checkpoint, plain


@dataclass
class Counters:
    """Sums over the reads of a fit so far."""

    n_passes: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    n_served: int = 0
    """Reads among the passes that one made for another fit served: no rows, no bytes."""

    def kept(self) -> KeptCounters:
        """The sums as the manifest holds them."""
        kept: KeptCounters = {
            "n_passes": self.n_passes,
            "rows_read": self.rows_read,
            "bytes_read": self.bytes_read,
            "seconds": self.seconds,
        }
        return {**kept, "n_served": self.n_served} if self.n_served else kept


class Log:
    """The results that a fit has finished, in the order in which it asked for them."""

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        n_passes: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.checkpoint, self._clock = checkpoint, clock
        self.history: list[dict[str, object]] = []
        self._position = 0
        self._counters = Counters(n_passes)
        self._since = clock()

    @property
    def counters(self) -> Counters:
        """The counters now; a resumed fit counts on from where the log ends."""
        seconds = self._counters.seconds + (self._clock() - self._since)
        return replace(self._counters, seconds=seconds)

    def replay(self, kind: str, name: str) -> Entry | None:
        """The log's next entry if there is one; it must be what the fit asks for now."""
        if self.checkpoint is None:
            return None
        log, partial = self.checkpoint.manifest["log"], self.checkpoint.manifest["partial"]
        entry: Entry | None = None
        if self._position < len(log):
            entry = log[self._position]
            kept = entry["kind"], entry["name"]
        elif partial is not None and kind == "read":
            kept = "read", partial["name"]
        else:
            return None
        if kept != (kind, name):
            raise CheckpointError(
                f"checkpoint {self.checkpoint.place} has {kept[0]} {kept[1]!r} where the fit now "
                f"asks for {kind} {name!r}: it took another path than before (another memory "
                "budget or scratch setting?); go back to those settings, or remove the checkpoint"
            )
        if entry is not None:
            self._position += 1
            self._count_from(Counters(**entry["counters"]))
        return entry

    def stored(self, entry: Entry | KeptFile) -> Any:
        """Read the value that an entry's file holds."""
        assert self.checkpoint is not None
        return self.checkpoint.read(entry["file"])

    def add_read(
        self, name: str, result: object, rows_read: int, bytes_read: int, *, served: bool = False
    ) -> None:
        """A read is finished: count it, and keep its result.

        `served`: by one made for another fit, which counts its rows and bytes.
        """
        now = self.counters
        now.n_passes += 1
        now.n_served += served
        now.rows_read += 0 if served else rows_read
        now.bytes_read += 0 if served else bytes_read
        self._count_from(now)
        if self.checkpoint is not None:
            self._append("read", name, self.checkpoint.write("read", result))
            self.checkpoint.manifest["partial"] = None
            self._tell()
            self.checkpoint.commit()

    def record(self, fields: dict[str, object]) -> None:
        """Append to the history; the checkpoint's grows with it, for others to watch."""
        self.history.append(fields)
        if self.checkpoint is not None and self._position == len(self.checkpoint.manifest["log"]):
            self._tell()
            self.checkpoint.commit()

    def _tell(self) -> None:
        """Write what `read_status` shows of a fit that goes on into the manifest."""
        assert self.checkpoint is not None
        self.checkpoint.manifest["history"] = [plain(record) for record in self.history]
        self.checkpoint.manifest["counters"] = self.counters.kept()

    def restore(self, key: str, default: object) -> Any:
        """The state last committed under `key`, or `default`."""
        entry = self.replay("state", key)
        if entry is not None and entry["file"] is not None:
            stored = self.stored(entry)
            self.history[:] = stored["history"]
            return stored["state"]
        if entry is None and self.checkpoint is not None:
            self._append("state", key, None)
        return default

    def commit(self, key: str, state: object) -> None:
        """Keep a loop state in place of what was logged since `restore`."""
        if self.checkpoint is None:
            return
        log = self.checkpoint.manifest["log"]
        mine = [i for i, e in enumerate(log) if (e["kind"], e["name"]) == ("state", key)]
        if not mine:
            raise ValueError(f"commit({key!r}) without restore({key!r}) before it")
        del log[mine[-1] :]
        file = self.checkpoint.write("state", {"state": state, "history": self.history})
        self._append("state", key, file)
        self.checkpoint.commit()

    def finish(self, result: object) -> None:
        """Keep the result of the whole fit in place of its log."""
        if self.checkpoint is None:
            return
        counters = self.counters.kept()
        stored = {"result": result, "history": self.history, "counters": counters}
        file = self.checkpoint.write("finished", stored)
        self.checkpoint.manifest |= {
            "finished": {"file": file},
            "log": [],
            "partial": None,
            "rows": {},
        }
        self._tell()
        self.checkpoint.commit()

    def finished(self) -> Any:
        """The result of a finished fit, with history and counters; None if it is not finished."""
        entry = self.checkpoint.manifest["finished"] if self.checkpoint is not None else None
        if entry is None:
            return None
        stored = self.stored(entry)
        self.history[:] = stored["history"]
        self._count_from(Counters(**stored["counters"]))
        return stored["result"]

    def _append(self, kind: str, name: str, file: str | None) -> None:
        assert self.checkpoint is not None
        log = self.checkpoint.manifest["log"]
        counters = self.counters.kept()
        log.append({"kind": kind, "name": name, "file": file, "counters": counters})
        self._position = len(log)

    def _count_from(self, counters: Counters) -> None:
        self._counters = counters
        self._since = self._clock()
