"""The process that holds a checkpoint, named by its lock, and the refusal of another fit."""

from __future__ import annotations

import json
import time

from ...errors import CheckpointError
from ..processes import is_alive, this_process


def this_holder() -> bytes:
    """Identity of this process for a lock, as JSON; the time is for people, nothing compares it."""
    return json.dumps({**this_process(), "since": time.time()}).encode()


def holder_in(text: bytes) -> dict[str, object]:
    """The holder that a lock names; empty if it names none."""
    try:
        holder = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return holder if isinstance(holder, dict) else {}


def has_ended(holder: dict[str, object]) -> bool:
    """Whether the holder's process is known to have ended."""
    return is_alive(holder) is False


def is_this_process(holder: dict[str, object]) -> bool:
    return all(holder.get(key) == value for key, value in this_process().items())


def refusal(place: str, holder: dict[str, object]) -> CheckpointError:
    """The error for a fit that comes second."""
    since = holder.get("since")
    when = "unknown"
    if isinstance(since, int | float) and 0 <= since < 2**40:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    host, pid = (str(holder.get(key, "unknown"))[:80] for key in ("host", "pid"))
    return CheckpointError(
        f"checkpoint {place} is in use by another fit: host {host}, process {pid}, since {when}; "
        "wait for it, stop it, or use another folder"
    )


def taken_away(place: str) -> CheckpointError:
    """The error for a fit whose lock is gone when it is about to commit."""
    return CheckpointError(
        f"checkpoint {place} was removed, replaced or taken over by another fit while this one "
        "went on, so nothing more is written there; run the same line again, with another folder "
        "if another fit uses this one"
    )
