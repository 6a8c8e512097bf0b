"""Any number of hostile cases in worker processes: a crash or a hang is a verdict, not the end."""

import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
MOST_SECONDS = 120
"""A case that takes longer hangs; compiling kernels is most of the first one."""


def run(kind, n, first=0):
    """The count of verdicts of n cases, and the (seed, verdict) of the bad ones."""
    counts, bad = Counter(), []
    seed, stop = first, first + n
    while seed < stop:
        for at, verdict in run_until_death(kind, seed, stop):
            counts[verdict.partition(" ")[0] if verdict[0].isupper() else verdict] += 1
            if verdict[0].isupper():
                bad.append((at, verdict))
            seed = at + 1
    return counts, bad


def run_until_death(kind, first, stop):
    """(seed, verdict) of the cases of one worker, the last of which may be what ended it."""
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    command = [sys.executable, str(TESTS / "hostile" / "worker.py"), kind, str(first), str(stop)]
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as worker:
        begun = first
        watch = None
        for line in worker.stdout:
            word, seed, *rest = line.rstrip("\n").split(" ", 2)
            if watch is not None:
                watch.cancel()
            if word == "begin":
                begun = int(seed)
                watch = threading.Timer(MOST_SECONDS, worker.kill)
                watch.start()
            elif word == "end":
                yield int(seed), rest[0]
                begun = int(seed) + 1
        if watch is not None:
            watch.cancel()
        code = worker.wait()
    if begun < stop:
        yield begun, f"CRASH or hang, exit code {code}"
