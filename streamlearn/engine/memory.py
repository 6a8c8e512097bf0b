"""The memory that this process uses, and the memory that is available."""

from __future__ import annotations

import os
from _thread import start_new_thread
from pathlib import Path
from time import sleep

import psutil  # type: ignore[import-untyped]

_PAGE = os.sysconf("SC_PAGE_SIZE") if "sysconf" in vars(os) else 4096
_SAMPLE_S = 0.02


def resident_bytes() -> int:
    """Resident memory of this process now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return int(psutil.Process().memory_info().rss)


def peak_resident_bytes() -> int:
    """Highest resident memory of this process so far (``VmHWM``: not inherited)."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resident_bytes()
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resident_bytes()


def available_bytes() -> int:
    """Memory that can still be had: the system's, or less if a container's limit is nearer."""
    available = int(psutil.virtual_memory().available)
    for folder, limit_name, used_name in (
        (_cgroup_folder(), "memory.max", "memory.current"),
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        available = min(available, _room_in_cgroup(folder, limit_name, used_name))
    return available


def _cgroup_folder() -> Path:
    """The folder of this process's control group (version 2)."""
    root = Path("/sys/fs/cgroup")
    try:
        own = Path("/proc/self/cgroup").read_text().strip().rpartition("::/")[2]
    except OSError:
        return root
    return root / own if (root / own / "memory.max").exists() else root


def _room_in_cgroup(folder: Path, limit_name: str, used_name: str) -> int:
    """Bytes left under the limit of a control group; droppable pages of files count as free."""
    unlimited = 1 << 62
    try:
        limit = (folder / limit_name).read_text().strip()
        used = int((folder / used_name).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return unlimited
    if limit == "max" or int(limit) >= unlimited:
        return unlimited
    droppable = int(stat.get("inactive_file", 0))
    return max(0, int(limit) - used + droppable)


class MemorySampler:
    """Peak resident memory between entering and leaving, by a light thread.

    A sample can miss a short peak; `VmHWM` cannot, but is the peak since the process began.  So:
    `VmHWM` if it rose meanwhile, else the highest sample.
    """

    def __init__(self) -> None:
        self._highest = 0
        self._before = 0
        self.bytes_before = 0
        """Resident memory on entering, in bytes."""
        self._left = False

    def __enter__(self) -> MemorySampler:
        self._before = peak_resident_bytes()
        self._highest = self.bytes_before = resident_bytes()
        # nobody waits for the thread or wakes it, neither when it begins nor when it ends: each
        # takes as long as reading a small table
        start_new_thread(self._sample, ())
        return self

    def _sample(self) -> None:
        sleep(_SAMPLE_S)
        while not self._left:
            self._highest = max(self._highest, resident_bytes())
            sleep(_SAMPLE_S)

    def __exit__(self, *raised: object) -> None:
        self._left = True

    @property
    def peak_bytes(self) -> int:
        """Highest resident memory since entering."""
        now = peak_resident_bytes()
        return now if now > self._before else max(self._highest, resident_bytes())
