"""Runs cases one after the other in a process of its own: ``worker.py KIND FIRST STOP``.

Prints a line when a case begins and one when it has ended, so that whoever started it knows which
case took the process with it.
"""

import importlib
import sys
import tempfile
import warnings
from pathlib import Path


def main(kind, first, stop):
    warnings.simplefilter("ignore")
    case = importlib.import_module(f"hostile.{kind}").case
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, stop):
            print("begin", seed, flush=True)
            try:
                verdict = case(seed, Path(folder))
            except BaseException as error:
                verdict = f"WRONG {type(error).__name__}: {str(error)[:300]!r}"
            print("end", seed, verdict, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
