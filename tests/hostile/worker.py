"""Runs cases one after the other: ``worker.py KIND FIRST STOP``.

This process imports and compiles once, then forks one that runs the cases; when a file ends that
one, by a crash or because its time is over, the file is what it was at and another goes on with the
next.  Prints a line for each case, "SEED VERDICT"; a bad verdict begins with a capital letter.
"""

import importlib
import mmap
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import warnings
from pathlib import Path

MOST_SECONDS = 60
"""A case that takes longer hangs: each takes milliseconds, on a busy machine a second."""
MOST_MEMORY = 64 << 20
"""Bytes that a case may add: the smallest budget."""
MOST_ADDRESSES = 16 << 30
"""Bytes that a case may reserve, so that a bad one does not take the machine's memory."""
AT = struct.Struct("<qq")
OURS, ORACLE = 0, 1


class Progress:
    """Which case is under way and who has it, ours or the oracle; survives a crash."""

    def __init__(self):
        self._memory = mmap.mmap(-1, AT.size)

    def set(self, seed, stage):
        self._memory[: AT.size] = AT.pack(seed, stage)

    def get(self):
        return AT.unpack(self._memory[: AT.size])


def main(kind, first, stop):
    warnings.simplefilter("ignore")
    module = importlib.import_module(f"hostile.{kind}")
    base = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        given = base / "given"
        given.mkdir()
        (base / "canary").mkdir()
        (base / "canary" / "victim.txt").write_text("a file of somebody else")
        tempfile.tempdir = str(base / "scratch")
        os.mkdir(tempfile.tempdir)
        module.warm(given)
        progress, seed = Progress(), first
        while seed < stop:
            progress.set(seed, OURS)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    run_cases(module, base, progress, seed, stop)
                    code = 0
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)
            if status == 0:
                break
            at, stage = progress.get()
            print(at, death(status, stage), flush=True)
            seed = at + 1
    finally:
        shutil.rmtree(base, ignore_errors=True)


def death(status, stage):
    """The verdict of a case that ended its process."""
    by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if stage == ORACLE:
        return "the oracle died"
    if by == signal.SIGALRM:
        return f"HANG of more than {MOST_SECONDS} s"
    name = signal.Signals(by).name if by else f"exit code {os.WEXITSTATUS(status)}"
    return f"CRASH by {name}"


def run_cases(module, base, progress, first, stop):
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    untouched = outside(base)
    for seed in range(first, stop):
        progress.set(seed, OURS)
        signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)  # its signal ends the process
        before = start_peak()
        peak = before

        def ours_is_done(seed=seed):
            nonlocal peak
            peak = memory("VmHWM")
            progress.set(seed, ORACLE)

        try:
            verdict = module.case(seed, base / "given", ours_is_done)
        except BaseException as error:
            verdict = f"WRONG {type(error).__name__}: {str(error)[:300]!r}"
        if progress.get()[1] == OURS:
            peak = memory("VmHWM")
        if outside(base) != untouched:
            verdict = f"OUTSIDE files were touched ({verdict})"
            untouched = outside(base)
        elif peak - before > MOST_MEMORY and not verdict[0].isupper():
            verdict = f"MEMORY of {(peak - before) >> 20} MiB ({verdict})"
        print(seed, verdict, flush=True)
    signal.setitimer(signal.ITIMER_REAL, 0)


def outside(base):
    """What is beside the folder that is given: no case may change it."""
    victim = base / "canary" / "victim.txt"
    return (
        sorted(os.listdir(base)),
        os.listdir(base / "canary"),
        os.listdir(base / "scratch"),
        victim.exists() and (victim.read_text(), victim.stat().st_mtime_ns),
    )


def start_peak():
    """Resident bytes now, from where the peak is counted anew."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return memory("VmRSS")


def memory(field):
    with open("/proc/self/status", "rb") as file:
        text = file.read()
    at = text.index(field.encode() + b":")
    return int(text[at : at + 40].split()[1]) * 1024


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
