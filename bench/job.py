"""One measurement in its own process: ``python bench/job.py ANSWER.json < job.json``.

The peer's `prepare` imports what it needs (ours also warms); then resident memory is the baseline,
`run` is measured, and the peak (``VmHWM``) is taken before any score is computed.  The peers are
those of the tree that ``PYTHONPATH`` names, which may be another commit's than this file's.
"""

import contextlib
import importlib
import json
import resource
import sys
import traceback
from pathlib import Path


def memory(field):
    """``VmRSS`` or ``VmHWM`` of this process in bytes; None where /proc does not tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    for line in status.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


def reset_peak():
    """Start ``VmHWM`` again from now, where the kernel lets a process do so."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def user_seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def main():
    job = json.load(sys.stdin)
    answer = Path(sys.argv[1])
    try:
        peer = importlib.import_module(f"bench.peers.{job['peer']}")
        report = peer.prepare(**job["options"]) or {}
        report |= {"baseline_bytes": memory("VmRSS"), "prepare_peak_bytes": memory("VmHWM")}
        before = user_seconds()
        score = peer.run(report, **job["options"])
        report |= {"peak_bytes": memory("VmHWM"), "user_s": user_seconds() - before}
        if score is not None:
            report |= score()
        if report["peak_bytes"] is not None:
            report["over_baseline_bytes"] = report["peak_bytes"] - report["baseline_bytes"]
    except Exception as error:  # whatever a rival raises is a row of the table
        traceback.print_exc()
        report = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    answer.write_text(json.dumps(report, default=float))


if __name__ == "__main__":
    main()
