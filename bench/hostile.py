"""Parquet, zarr, model and checkpoint files changed at random, each read in a process that may die.

``--files 100000`` changes so many parquet files, and a fifth of that many zarr stores and models,
and a twentieth of that many checkpoints; ``--seed`` is the first file's.  A file is what its seed
makes of it, so a bad verdict can be had again: ``--only parquet --files 1 --seed SEED``.
"""

import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from .run import ROOT, say

KINDS = {"parquet": 1, "zarr": 5, "models": 5, "checkpoints": 20}
"""Parquet files to one of each kind."""
TINY = 20
"""Files of each kind that the tests of the bench change."""
STEP_S = 60
"""Seconds between lines that say how far it is."""


def run(session):
    for kind, share in KINDS.items():
        if session.wants(kind):
            n = TINY if session.options.tiny else -(-session.options.files // share)
            session.add(row(session, kind, n))


def row(session, kind, n):
    """Counts of the verdicts, over processes side by side."""
    sys.path.insert(0, str(ROOT / "tests"))
    from hostile.runner import run as run_cases

    def run_some(part):
        return run_cases(f"{kind}_stores" if kind == "zarr" else kind, len(part), part.start, tell)

    said = time.monotonic()

    def tell(done, _counts):
        nonlocal said
        if time.monotonic() > said + STEP_S:
            said = time.monotonic()
            say(f"{kind}: {done:,} of {len(parts[0]):,} in one of {len(parts)} processes")

    first, k = session.options.seed, min(session.options.threads, n)
    parts = [range(first + n * i // k, first + n * (i + 1) // k) for i in range(k)]
    counts, bad = Counter(), []
    with ThreadPoolExecutor(k) as pool:
        for some, found in pool.map(run_some, parts):
            counts += some
            bad += found
    session.failed += [f"{kind}, seed {seed}: {verdict}" for seed, verdict in bad]
    return {"kind": kind, "files": n, "bad": len(bad), **dict(counts.most_common())}
