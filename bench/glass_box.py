"""Additive models that can be looked at, with nothing set, against each other on held-out rows.

Ours read parquet under 512 MiB; the rivals hold a frame.  Classes are scored by log-loss, numbers
by 1 - R^2, so that less is better in every row.  LightGBM with its defaults is no glass box: it is
there to show what one gives up.  pyGAM searches its default grid, on small tables of numbers alone.
Peaks are of the measured process over its libraries: what EBM's worker processes take is not in it.
"""

from pathlib import Path

import numpy as np

from .data import shared_folder

BUDGET = "512MiB"
OURS = {
    "ours": {},
    "ours, reml": {"smoothness": "reml"},
    "ours, pairs auto": {"interactions": "auto"},
    "ours, 40 pairs": {"interactions": 40},
}
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
    compare(session, found, "ours", "EBM, no pairs")
    compare(session, found, "ours, reml", "EBM, no pairs")
    compare(session, found, "ours, pairs auto", "EBM")
    compare(session, found, "ours, 40 pairs", "EBM")


def row(name, model, report):
    peak = report.get("over_baseline_bytes")
    return {
        "table": name,
        "model": model,
        "held-out loss": report.get("loss"),
        "AUC": report.get("auc"),
        "seconds": report.get("fit_s"),
        "peak, MiB": None if peak is None else peak / 2**20,
        "reads": report.get("n_passes"),
        "terms": report.get("n_terms"),
        "why not": report.get("error"),
    }


def compare(session, found, ours, rival):
    """A note: on how many tables ours loses no more, and by how much at most."""
    both = [
        (found[name, ours], found[name, rival], name)
        for name, model in found
        if model == ours and (name, rival) in found
    ]
    both = [(a, b, name) for a, b, name in both if "loss" in a and "loss" in b]
    if not both:
        return
    worse = [(a["loss"] / b["loss"] - 1.0, name) for a, b, name in both]
    times = np.exp(np.mean([np.log(a["fit_s"] / b["fit_s"]) for a, b, _ in both]))
    most, where = max(worse)
    session.note(
        f"{ours} against {rival}: no more loss on {sum(w <= 0 for w, _ in worse)} of {len(worse)} "
        f"tables, at most {100 * most:.1f} % more ({where}); times {times:.3g} (geometric mean)"
    )


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


def planted(folder):
    """200,000 rows of 20 columns: six curves and four products that a sum of curves cannot have."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [Path(folder) / f"glass-box-planted-{part}.parquet" for part in ("train", "test")]
    if not all(path.exists() for path in paths):
        rng = np.random.default_rng(0)
        for path, n in zip(paths, (200_000, 50_000), strict=True):
            X = rng.random((n, 20), dtype=np.float32)
            f = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 - X[:, 2] + np.abs(X[:, 3] - 0.5)
            f += np.cos(9 * X[:, 4]) + np.sqrt(X[:, 5])
            for d, e in ((0, 6), (7, 8), (9, 10), (2, 11)):
                f += 6 * (X[:, d] - 0.5) * (X[:, e] - 0.5)
            y = (rng.random(n) < 1 / (1 + np.exp(-2 * (f - f.mean())))).astype(np.int8)
            columns = {f"x{j}": X[:, j] for j in range(20)}
            pq.write_table(pa.table({**columns, "target": y}), path)
    return tuple(paths)


TABLES = {
    "adult": lambda folder: given("adult"),
    "california_housing": lambda folder: divided(
        folder, "california_housing", "cal_housing.parquet"
    ),
    "covtype": lambda folder: divided(folder, "covtype", "covtype_sample16.parquet"),
    "a9a": lambda folder: given("a9a"),
    "satimage": lambda folder: given("satimage"),
    "planted pairs": planted,
    "kdd99": lambda folder: given("kdd99", "train10pct.parquet", "test_corrected.parquet"),
}
"""Name -> (folder for what is made) -> paths."""
