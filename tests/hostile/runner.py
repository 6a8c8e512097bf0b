"""Any number of hostile cases in worker processes: a crash or a hang is a verdict, not the end."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


def run(kind, n, first=0, say=None, **settings):
    """The count of verdicts of n cases, and the (seed, verdict) of the bad ones.

    `settings` are environment variables of the worker.
    """
    counts, bad = Counter(), []
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    command = [sys.executable, str(TESTS / "hostile" / "worker.py"), kind, str(first)]
    with subprocess.Popen(
        [*command, str(first + n)],
        env={**os.environ, "PYTHONPATH": paths, **settings},
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        for line in worker.stdout:
            seed, verdict = line.rstrip("\n").split(" ", 1)
            is_bad = verdict[0].isupper()
            counts[verdict.partition(" ")[0] if is_bad else verdict] += 1
            if is_bad:
                bad.append((int(seed), verdict))
                print(f"{kind}, seed {seed}: {verdict}", file=sys.stderr, flush=True)
            if say is not None:
                say(sum(counts.values()), counts)
    assert sum(counts.values()) == n, f"the worker of {kind} ended early, with {worker.returncode}"
    return counts, bad
