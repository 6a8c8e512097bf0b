"""``python -m bench peers``: a table for each question that users come with, ours and rivals.

Ours read parquet under 512 MiB with nothing set.  A rival gets the same rows, as many threads, and
more care: the one parameter that its manual names first, from five values by three folds, where it
has one that matters; the column "chosen" says which, and its seconds are in the seconds.  Rivals
that learn in batches read the file in batches; the others hold a frame.  Each model has a process
of its own: peaks are over its libraries, without the worker processes that a rival starts.

``--only size``: the most rows of 50 columns that a model finishes under 1 GiB, by doubling.
``--only pass``: a read of each family beside decoding alone, and the same rows from memory.
"""

import numpy as np

from . import data
from .defaults import TABLES, written

BUDGET = "512MiB"
ROWS = 20_000
"""Most rows of a table, in training and in test; ``--rows`` sets others."""
QUESTIONS = {
    "curves to look at": (
        ("adult", "covtype", "california_housing"),
        ("ours: additive", "ours: additive, pairs"),
        ("EBM, no pairs", "EBM", "LightGBM stumps", "LightGBM", "splines", "pyGAM"),
    ),
    "a line for more rows than memory": (
        ("adult", "covtype", "kdd99"),
        ("ours: additive hinge", "ours: mixture"),
        ("LIBLINEAR", "SGD in batches", "Vowpal Wabbit"),
    ),
    "not linear, and cheap to predict": (
        ("adult", "covtype", "pendigits"),
        ("ours: mixture", "ours: boosting", "ours: super-sparse"),
        ("RBF SVM", "Nystroem", "LightGBM"),
    ),
    "few columns of many": (
        ("isolet", "satimage", "mnist"),
        ("ours: ShareBoost, 20 columns",),
        ("l1, 20 columns", "forward, 20 columns", "group lasso, 20 columns"),
    ),
}
"""Question -> (tables, ours, rivals)."""
TINY_ROWS = 300
OF_SIZE = ("ours: additive", "splines", "LIBLINEAR", "LightGBM", "EBM, no pairs")
LIMIT, FIRST, LAST, COLUMNS = 1 << 30, 50_000, 3_200_000, 50
"""Bytes that a fit may take; rows of the first and of the largest table of `sizes`; columns."""
FAMILIES = (
    "ours: additive",
    "ours: mixture",
    "ours: ShareBoost, 20 columns",
    "ours: pursuit",
    "ours: boosting",
    "ours: super-sparse",
)
ROWS_OF_A_PASS = 2_000_000


def run(session):
    tiny = session.options.tiny
    rows = TINY_ROWS if tiny else session.options.rows or ROWS
    for question, (tables, ours, rivals) in QUESTIONS.items():
        if not session.options.rival_seconds:
            rivals = ()
        if tiny:  # a table that comes with scikit-learn
            tables, ours, rivals = ("breast cancer",), ours[:1], rivals[:1]
        for table in tables:
            models = [m for m in (*ours, *rivals) if session.wants(f"{question}: {table}: {m}")]
            if models:
                train, test = written(session.options.data, table, TABLES[table], rows)
                task = {"train": str(train), "test": str(test), "target": "target"}
                for model in models:
                    report = asked(session, f"{question}: {table}: {model}", model, task)
                    session.add(answer(question, table, model, report))
    if session.wants("size"):
        sizes(session)
    if session.wants("pass"):
        passes(session)


def asked(session, label, model, task, **options):
    is_ours = model.startswith("ours")
    return session.measure(
        "questions",
        label=label,
        timeout=7200 if is_ours else session.options.rival_seconds,
        may_fail=not is_ours,
        model=model,
        budget=BUDGET,
        task=task,
        seed=session.options.seed,
        **options,
    )


def answer(question, table, model, report):
    return {
        "question": question,
        "table": table,
        "model": model,
        "chosen": report.get("chosen", ""),
        "right, or R^2": report.get("quality"),
        "log-loss": report.get("log_loss"),
        "columns": report.get("n_columns"),
        "seconds": report.get("fit_s"),
        "user s": report.get("fit_user_s"),
        "peak, MiB": mib(report.get("over_baseline_bytes")),
        "reads": report.get("n_passes"),
        "MB read": None if "bytes_read" not in report else report["bytes_read"] / 1e6,
        "a row predicted, µs": report.get("predict_us"),
        "why not": report.get("error"),
    }


def mib(nbytes):
    return None if nbytes is None else nbytes / 2**20


def sizes(session):
    """Rows of 50 columns are doubled until a fit takes more than 1 GiB, or too long."""
    first, last = (1_000, 2_000) if session.options.tiny else (FIRST, LAST)
    models = OF_SIZE if session.options.rival_seconds else OF_SIZE[:1]
    for model in models[: 2 if session.options.tiny else None]:
        done, rows, ended = None, first, ""
        while rows <= last and not ended:
            task = data.generated(session.options.data, rows, COLUMNS, seed=session.options.seed)
            label = f"size: {rows:,} x {COLUMNS}: {model}"
            report = asked(session, label, model, task.asdict(), nothing_chosen=True)
            if "error" in report:
                ended = report["error"]
            elif report["over_baseline_bytes"] > LIMIT:
                ended = f"{rows:,} rows take {mib(report['over_baseline_bytes']):.0f} MiB"
            else:
                done, rows = report | {"rows": rows}, 2 * rows
        session.add(
            {
                "question": "most rows under 1 GiB",
                "table": f"generated, {COLUMNS} columns",
                "model": model,
                "rows": done and done["rows"],
                "log-loss": done and done.get("log_loss"),
                "seconds": done and done["fit_s"],
                "peak, MiB": done and mib(done["over_baseline_bytes"]),
                "why no more": ended or f"{last:,} rows are the largest table here",
            }
        )


def passes(session):
    """The costliest kind of read of each family, from disk and memory, beside decoding alone."""
    rows = 6_000 if session.options.tiny else session.options.rows or ROWS_OF_A_PASS
    task = data.generated(session.options.data, rows, 20, seed=session.options.seed)
    floor = session.best("read_only", label="pass: decoding alone", task=task.asdict())
    for model in FAMILIES:
        found = {}
        for place in ("disk", "memory"):
            label = f"pass: {model}, {place}"
            report = asked(session, label, model, task.asdict(), place=place, few=True)
            found[place] = report
        if any("error" in report for report in found.values()):
            continue
        kind = costliest(found["disk"]["reads"])
        disk, memory = (quickest(found[place]["reads"], kind) for place in ("disk", "memory"))
        session.add(
            {
                "question": "a read at the limits of the machine",
                "table": task.name,
                "model": model,
                "read": kind,
                "seconds": disk,
                "decoding alone": floor.get("fit_s"),
                "from memory": memory,
                "over the longer of both": disk / max(memory, floor["fit_s"]),
            }
        )


def kinds(reads):
    """Name of a read without its number -> seconds of each that is no part of another."""
    found = {}
    for read in reads:
        if not read["inside"] and not read["name"].startswith("summary"):
            found.setdefault(read["name"].rstrip("0123456789-"), []).append(read["s"])
    return found


def costliest(reads):
    found = kinds(reads)
    return max(found, key=lambda kind: np.sum(found[kind]))


def quickest(reads, kind):
    return min(kinds(reads)[kind])
