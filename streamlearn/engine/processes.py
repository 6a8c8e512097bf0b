"""The process that wrote a file, and whether it still runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import psutil  # type: ignore[import-untyped]


def this_process() -> dict[str, object]:
    """Host and process, told apart from a later process with the same number."""
    return {"host": socket.gethostname(), **(identity_of(os.getpid()) or {})}


def is_alive(process: Mapping[str, object]) -> bool | None:
    """Whether a process of `this_process` still runs.

    None: nobody can say, as it is another machine's, another container's, or not written here.
    """
    own, pid = this_process(), process.get("pid")
    if any(process.get(key) != own[key] for key in ("host", "namespace")):
        return None
    if type(pid) is not int or pid <= 0 or "started" not in process:
        return None
    now = identity_of(pid)
    return now is not None and now["started"] == process["started"]


def identity_of(pid: int) -> dict[str, object] | None:
    """The facts that tell a process from a later one of the same number; None if there is none."""
    try:
        return {"pid": pid, "started": _started(pid), "namespace": namespace()}
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def namespace() -> str:
    """Name of the namespace in which numbers of processes are unique; empty if there is one."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(pid: int) -> str | float:
    """Start of a process: on Linux in clock ticks of one boot, elsewhere in seconds of the epoch.

    A wall clock would not do: when it is set, a start that is computed from it moves with it, and
    every process that runs would look like another one.
    """
    boot = Path("/proc/sys/kernel/random/boot_id")
    if not boot.exists():
        return round(psutil.Process(pid).create_time(), 2)
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{boot.read_text().strip()} {after_name[19]}"
