"""Every classifier with nothing set, from parquet in one line, beside itself on numbers alone.

The tables have what people have: strings (adult, kdd99), and (generated) a column of 100,000 words,
dates, and holes in words and numbers.  Columns that hold an attack's name are left out, since they
tell the class.  Fits are under 512 MiB; adult and kdd99 are cut to 20,000 rows by a fixed seed, or
to ``--rows``.  Better is by held-out rows, in standard errors of a difference between two samples:
both are scored on the same one, so that it is surer yet.
"""

import numpy as np

from . import defaults
from .run import mib

ROWS = 20_000
"""Most rows of a real table, in training and in test."""
N, N_LEVELS = 300_000, 100_000
"""Rows of the generated table, of which a quarter is held out, and words of one of its columns."""
TINY = "generated", 3_000, 500, ("AdditiveClassifier", "ShareBoostClassifier")
"""Table, rows, words and models of the tiny run."""
CLEAR = 2.0
"""Standard errors from which on a difference is no noise."""


def run(session):
    tiny, given = session.options.tiny, session.options.rows
    tables = TABLES if not tiny else {TINY[0]: lambda: generated(*TINY[1:3])}
    models = TINY[3] if tiny else defaults.ours(False)
    for name, make in tables.items():
        wanted = [model for model in models if session.wants(f"{name}: {model}")]
        if not wanted:
            continue
        most = N if name == "generated" else given or ROWS
        paths = defaults.written(session.options.data, f"mixed {name}{' tiny' * tiny}", make, most)
        for model in wanted:
            session.add(compared(session, name, model, *map(str, paths)))
    for name in tables:
        rows = [
            row for row in session.rows if row["table"] == name and row["better by"] is not None
        ]
        if not rows:
            continue
        better, worse = (
            [row["model"] for row in rows if sign * row["standard errors"] > CLEAR]
            for sign in (1, -1)
        )
        session.note(
            f"{name}: better than on the numeric columns alone, by more than {CLEAR:g} standard "
            f"errors: {len(better)} of {len(rows)} classifiers; worse: {', '.join(worse) or 'none'}"
        )


def compared(session, name, model, train, test):
    """A row: one classifier on all columns, and on those of numbers alone."""
    all_columns, numbers = (
        session.measure(
            "defaults",
            label=f"{name}: {model}, {'numbers alone' if alone else 'all columns'}",
            may_fail=True,
            model=model,
            budget=defaults.BUDGET,
            train=train,
            test=test,
            seed=session.options.seed,
            numbers_alone=alone,
        )
        for alone in (False, True)
    )
    row = {
        "table": name,
        "model": model,
        "right, all columns": all_columns.get("quality"),
        "numbers alone": numbers.get("quality"),
        "better by": None,
        "standard errors": None,
        "log-loss": all_columns.get("log_loss"),
        "numbers' log-loss": numbers.get("log_loss"),
        "seconds": all_columns.get("fit_s"),
        "peak, MiB": mib(all_columns.get("over_baseline_bytes")),
        "why not": all_columns.get("error") or numbers.get("error"),
    }
    if row["why not"] is None:
        errors = (all_columns["standard_error"], numbers["standard_error"])
        row["better by"] = all_columns["quality"] - numbers["quality"]
        row["standard errors"] = row["better by"] / max(float(np.hypot(*errors)), 1e-12)
    return row


def generated(n=N, n_levels=N_LEVELS):
    """Two classes decided by words, of which few are frequent, the season, and numbers.

    Each word is there, and those of small numbers many times.  A twentieth of the words and a fifth
    of one column of numbers are missing, of the latter those of one class more often.
    """
    import pyarrow as pa

    rng = np.random.default_rng(0)
    often = (n_levels * rng.random(n - n_levels) ** 3).astype(np.int64)
    place = rng.permutation(np.concatenate([np.arange(n_levels), often]))
    day = rng.integers(0, 3 * 365, n)
    X = rng.standard_normal((n, 2)).astype(np.float32)
    f = 2 * rng.standard_normal(n_levels)[place] + X[:, 0] + np.cos(2 * np.pi * day / 365.25)
    y = f + rng.logistic(size=n) > 0
    words = pa.array([f"place {k}" for k in place], mask=rng.random(n) < 0.05)
    dates = pa.array(np.datetime64("2020-01-01") + day)
    holes = pa.array(X[:, 1], mask=rng.random(n) < np.where(y, 0.25, 0.15))
    columns = {"x0": X[:, 0], "x1": holes, "place": words.dictionary_encode(), "when": dates}
    return defaults.divided(pa.table({**columns, "target": y.astype(np.int8)}))


TABLES = {
    "adult": lambda: defaults.given("adult"),
    "kdd99": defaults.TABLES["kdd99"],
    "kdd99, rows held out": lambda: defaults.divided(
        defaults.read("kdd99", "train10pct.parquet").drop_columns(["label"])
    ),
    "generated": generated,
}
"""Name -> () -> (train, test)."""
