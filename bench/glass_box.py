"""Additive models that can be looked at, against each other on held-out rows.

Nothing is set but what a row's name says: "ours" has ``interactions=0``, as rivals without pairs,
and "ours, pairs auto" is the default.  Ours read parquet under 512 MiB; the rivals hold a frame.
Classes are scored by log-loss, numbers by 1 - R^2, so that less is better in every row.  LightGBM
with its defaults is no glass box: it is there to show what one gives up.  pyGAM searches its
default grid, on small tables of numbers alone.  Peaks are of the measured process over its
libraries; the processes that a fit starts (EBM's) stand beside them, libraries and all, and the
memory that is compared is the sum.  ``--only size``: ten pairs on
generated tables of ``--rows`` rows and a tenth of them, ours alone.
"""

from pathlib import Path

import numpy as np

from . import data
from .data import shared_folder

BUDGET = "512MiB"
ROWS, COLUMNS = 100_000_000, 20
"""The table of the rows of size; columns of it and of the planted table."""
PLANTED = [
    (0, 6),
    (7, 8),
    (9, 10),
    (2, 11),
    (12, 13),
    (14, 15),
    (16, 17),
    (18, 19),
    (1, 12),
    (3, 16),
]
"""Columns whose products the planted table has."""
MEAN = (1 - np.cos(6)) / 6 + 1 / 3 - 1 / 2 + 1 / 4 + np.sin(9) / 9 + 2 / 3
"""Mean of the planted curves, so that both classes are as frequent."""
OURS = {
    "ours": {"interactions": 0},
    "ours, reml": {"interactions": 0, "smoothness": "reml"},
    "ours, pairs auto": {},
    "ours, 40 pairs": {"interactions": 40},
}
COUNTERPARTS = (
    ("ours", "EBM, no pairs"),
    ("ours, reml", "EBM, no pairs"),
    ("ours, pairs auto", "EBM"),
    ("ours, 40 pairs", "EBM"),
)
RIVALS = ("EBM, no pairs", "EBM", "LightGBM stumps", "LightGBM", "pyGAM")
TINY = ("satimage",), ("ours", "ours, pairs auto", "LightGBM stumps")


def run(session):
    folder = session.options.data
    tables = {name: make(folder) for name, make in TABLES.items() if session.wants(name)}
    models = [*OURS, *(RIVALS if session.options.rival_seconds else ())]
    if session.options.tiny:
        names, models = TINY
        tables = {name: tables[name] for name in names if name in tables}
    found = {}
    for name, (train, test) in tables.items():
        for model in models:
            report = session.measure(
                "glass_box",
                label=f"{name}: {model}",
                timeout=7200 if model in OURS else session.options.rival_seconds,
                may_fail=True,
                model=model,
                parameters=OURS.get(model),
                budget=BUDGET,
                train=str(train),
                test=str(test),
                seed=session.options.seed,
            )
            found[name, model] = report
            session.add(row(name, model, report))
        session.notes[:] = comparisons(found)
        session.save()  # a bench that is stopped keeps what it compared
    sizes(session)


def sizes(session):
    """Seconds and peaks of a model with pairs, as the rows become ten times as many."""
    most = 20_000 if session.options.tiny else session.options.rows or ROWS
    seconds = {}
    for rows in (most // 10, most):
        label = f"size, {rows:,} x {COLUMNS}, {len(PLANTED)} pairs"
        if not session.wants(label):
            continue
        report = session.measure(
            "glass_box",
            label=label,
            model="ours",
            parameters={"interactions": len(PLANTED)},
            budget=BUDGET,
            **dict(
                zip(("train", "test"), map(str, planted(session.options.data, rows)), strict=True)
            ),
        )
        session.add(row(label, f"ours, {len(PLANTED)} pairs", report))
        seconds[rows] = report.get("fit_s")
    if len(seconds) == 2 and all(seconds.values()):
        ratio = seconds[most] / seconds[most // 10]
        session.note(f"size: ten times the rows took {ratio:.3g} times the seconds")


def row(name, model, report):
    peak = report.get("over_baseline_bytes")
    seconds, in_reads = report.get("fit_s"), report.get("reads_s")
    return {
        "table": name,
        "model": model,
        "held-out loss": report.get("loss"),
        "AUC": report.get("auc"),
        "seconds": seconds,
        "in reads, s": in_reads,
        "outside reads, s": None if in_reads is None else seconds - in_reads,
        "peak, MiB": None if peak is None else peak / 2**20,
        "its processes, MiB": report.get("processes_bytes", 0) / 2**20 or None,
        "reads": report.get("n_passes"),
        "terms": report.get("n_terms"),
        "why not": report.get("error"),
    }


def comparisons(found):
    """What each of ours with a counterpart among the rivals is beside it, of the reports so far."""
    told = [compared(found, *pair) for pair in COUNTERPARTS]
    return [text for text in told if text]


def compared(found, ours, rival):
    """On how many tables ours loses no more, by how much at most, and at what cost; "" if none."""
    both = [
        (found[name, ours], found[name, rival], name)
        for name, model in found
        if model == ours and (name, rival) in found
    ]
    both = [(a, b, name) for a, b, name in both if "loss" in a and "loss" in b]
    if not both:
        return ""
    worse = [(a["loss"] / b["loss"] - 1.0, name) for a, b, name in both]
    most, where = max(worse)
    costs = []
    for what, cost in (("seconds", seconds_of), ("memory", memory_of)):
        ratios = [cost(a) / cost(b) for a, b, _ in both]
        mean = np.exp(np.mean(np.log(ratios)))
        costs.append(f"{what} {mean:.3g} (geometric mean; {min(ratios):.3g} to {max(ratios):.3g})")
    margin = f"{'at most' if most > 0 else 'at least'} {100 * abs(most):.1f} %"
    return (
        f"{ours} against {rival}: no more loss on {sum(w <= 0 for w, _ in worse)} of {len(worse)} "
        f"tables, {margin} {'more' if most > 0 else 'less'} ({where}); {'; '.join(costs)}"
    )


def seconds_of(report):
    return report["fit_s"]


def memory_of(report):
    """Bytes that the fit took: over the libraries, and of processes that it started."""
    return report["over_baseline_bytes"] + report.get("processes_bytes", 0)


# Tables: (train, test) parquet files with a column "target".


def given(name, train="train.parquet", test="test.parquet"):
    return shared_folder() / name / train, shared_folder() / name / test


def divided(folder, name, file):
    """A quarter of the rows of one file held out, by a fixed seed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [Path(folder) / f"glass-box-{name}-{part}.parquet" for part in ("train", "test")]
    if not all(path.exists() for path in paths):
        table = pq.read_table(shared_folder() / name / file)
        rows = np.random.default_rng(0).permutation(len(table))
        cut = len(table) * 3 // 4
        for path, part in zip(paths, (rows[:cut], rows[cut:]), strict=True):
            pq.write_table(table.take(pa.array(part)), path)
    return tuple(paths)


def planted(folder, rows=200_000):
    """Rows of 20 columns: six curves, and ten products that a sum of curves cannot have."""
    paths = [
        Path(folder) / f"glass-box-planted-{rows}-{part}.parquet" for part in ("train", "test")
    ]
    for seed, path, n in zip((0, 1), paths, (rows, 50_000), strict=True):
        if not path.exists():
            data.write_parquet(path, blocks(n, seed), n, COLUMNS, target="target", dictionary=False)
    return tuple(paths)


def blocks(rows, seed):
    """Yield (X, y) of the planted table, a row group each."""
    rng = np.random.default_rng(seed)
    for start in range(0, rows, data.ROW_GROUP):
        n = min(data.ROW_GROUP, rows - start)
        X = rng.random((n, COLUMNS), dtype=np.float32)
        f = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 - X[:, 2] + np.abs(X[:, 3] - 0.5)
        f += np.cos(9 * X[:, 4]) + np.sqrt(X[:, 5]) - MEAN
        for d, e in PLANTED:
            f += 6 * (X[:, d] - 0.5) * (X[:, e] - 0.5)
        yield X, (rng.random(n) < 1 / (1 + np.exp(-2 * f))).astype(np.int8)


TABLES = {
    "adult": lambda folder: given("adult"),
    "california_housing": lambda folder: divided(
        folder, "california_housing", "cal_housing.parquet"
    ),
    "a9a": lambda folder: given("a9a"),
    "satimage": lambda folder: given("satimage"),
    "planted pairs": planted,
    "covtype": lambda folder: divided(folder, "covtype", "covtype_sample16.parquet"),
    "kdd99": lambda folder: given("kdd99", "train10pct.parquet", "test_corrected.parquet"),
}
"""Name -> (folder for what is made) -> paths; those on which EBM takes longest come last."""
