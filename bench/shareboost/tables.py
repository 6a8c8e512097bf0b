"""The paper's experiments: digits from 16,000 patch columns, sharing, UCI sets, pieces, blocks.

Rows are labelled ``digits``, ``cost`` (only with ``--only cost``: two columns from the same store,
for the time of a read), ``sparse`` (likewise: the time of a read of sparse rows, ``--rows`` of
them), ``expanded`` (likewise: 23 GB decoded), ``hard pieces`` (likewise: those of the paper),
``choice digits``, ``choice copies`` and ``choice pieces`` (only with ``--only choice``: how
features, ridges, deformed copies and the SVM were chosen; ``--rows 60000`` takes all training
images), ``sharing``, ``products`` and ``stumps`` with the set's name (``--only satimage`` takes
both), ``pieces``, ``blocks``; ``--templates``, ``--copies`` and ``--columns`` make the digits'
stores and models smaller.
"""

import time

from bench.data import Absent, shared_folder
from bench.run import mib

from . import digits as digits
from . import sparse
from .uci import SETS

PATH = (10, 25, 50, 75, 100, 150, 200, 266, 305)


def run(session):
    shared = shared_folder()
    only = session.options.only
    sets = ["digits"] if session.options.tiny else SETS
    if only in ("expanded", "cost"):
        parts = {only: headline}
    elif only == "sparse":
        parts = {only: sparse.costs}
    elif only == "hard pieces":
        parts = {only: small("hard_pieces")}
    elif only.startswith("choice"):
        parts = {
            "choice digits": small("choose_look"),
            "choice copies": small("choose_copies"),
            "choice pieces": small("choose_pieces"),
        }
    else:
        parts = {
            "digits": headline,
            "sharing": small("sharing"),
            **{f"products, {name}": small("products", name) for name in sets},
            **{f"stumps, {name}": small("stumps", name) for name in sets},
            "pieces": small("pieces"),
            "blocks": small("blocks"),
        }
    for label, part in parts.items():
        if session.wants(label):
            try:
                part(session, label, shared)
            except Absent as reason:
                session.note(f"{label} left out: {reason}")


def headline(session, label, shared):
    """Fig. 3: test error against columns, from disk under a budget."""
    options, expanded = session.options, label == "expanded"
    start = time.perf_counter()
    train, test = digits.stores(
        options.data,
        shared,
        n_templates=options.templates,
        tiny=options.tiny,
        copies=options.copies if expanded else 0,
        seed=options.seed,
    )
    write_s = time.perf_counter() - start
    n = 2 if label == "cost" else 12 if options.tiny else 305 if expanded else 266
    n = options.columns or n
    report = session.measure(
        "shareboost",
        label=label,
        train=str(train),
        test=str(test),
        budget="256MiB" if options.tiny else "512MiB",
        chunk_rows=digits.ROWS,
        sizes=[size for size in PATH if size < n] + [n],
        n_selected=n,
        ridge=RIDGE_EXPANDED * digits.STEP**2 if expanded else RIDGE,  # its columns are bytes
        tol=TOL,
    )
    if "error" in report:
        return
    for row in report["path"]:
        session.add(
            {
                "experiment": label,
                "columns": row["n"],
                "test error, %": 100 * row["error"],
                "objective": row["objective"],
                "multiply-adds": digits.multiply_adds(row["n"]),
            }
        )
    session.note(
        f"{label}: {report['full_reads']:.1f} full reads (by bytes) beside the summary's "
        f"{report['summary_reads']}, peak "
        f"{mib(report['over_baseline_bytes'])} MiB over the baseline, fit {report['fit_s']:.0f} s; "
        f"a scoring read takes {report['score_read_s'] / report['read_alone_s']:.2f} x reading and "
        f"decoding alone ({report['read_alone_s']:.1f} s); writing the stores took {write_s:.0f} s."
    )


RIDGE, RIDGE_EXPANDED = 3e-6, 1e-6
"""Of columns in [0, 1]; chosen as ``--only choice`` does, on training images alone.  The expanded
set has six times the rows."""
TOL = 1e-9
"""With the default, what a column is proved to gain ends a fit that is nearly perfect early."""


def small(what, data=""):
    """The experiments that fit in memory, each in a process of its own."""

    def part(session, label, shared):
        if not session.options.tiny and not (shared / data).exists():
            raise Absent(f"no {shared / data}; set STREAMLEARN_DATA to the folder of the real sets")
        report = session.measure(
            "shareboost_small",
            label=label,
            what=what,
            shared=str(shared),
            data=data,
            tiny=session.options.tiny,
            rivals=bool(session.options.rival_seconds),
            n_templates=session.options.templates,
            n_rows=session.options.rows,
        )
        for row in report.get("rows", ()):
            session.add({"experiment": label.split(",")[0], **row})

    return part
