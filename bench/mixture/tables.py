"""Fu 2010's toys and tables: mixtures of linear SVMs beside linear, RBF, boosted and additive ones.

``--only`` takes toys, mnist, covtype, choice, cost, incremental, online or pixels; ``mnist-1000``
is one size.
``--draws`` fewer than ten are quicker; ``--rival-seconds 0`` leaves out all but a linear one.
What ours was given and how it was chosen stands in `models`; no test row has a say in it.
Test rows: MNIST's own; of covtype 20,000 that no draw trains on.
"""

import warnings

import numpy as np

from bench import data
from bench.run import say

from . import (
    choice,
    cost,
    incremental,
    models,
    online,
    scale,
    toys,
)

SIZES = (100, 500, 1_000, 5_000, 10_000)
ALL = {"mnist": 60_000, "covtype": 70_000}
TEST_ROWS = 20_000
"""Of covtype."""
PAPER = {
    ("mnist", "linear"): (80.62, 82.71, 84.71, 88.47, 89.60, 90.28),
    ("mnist", "ours"): (82.82, 90.12, 92.82, 93.91, 94.89, 95.20),
    ("covtype", "linear"): (64.79, 73.34, 74.78, 75.97, 76.19),
    ("covtype", "ours"): (65.98, 73.62, 74.89, 77.12, 77.34),
}
LEAST = {
    ("mnist", 10_000): 94.9,
    ("mnist", 60_000): 96.8,
    ("covtype", 10_000): 77.3,
    ("covtype", 70_000): 82.0,
}
"""What ours must reach, %."""


def run(session):
    warnings.simplefilter("ignore")
    only = session.options.only
    if session.wants("toys"):
        toys.run(session)
    for name in ALL:
        if name in only or session.wants(name):
            guarded(session, name, tables)
        if session.wants("choice"):
            guarded(session, name, choice.run)
    if session.wants("incremental"):
        incremental.run(session)
    if session.wants("online"):
        online.run(session)
    if session.wants("cost") and not (session.options.tiny and not only):
        guarded(session, "mnist", cost.run)
    if session.wants("pixels"):
        scale.run(session)


def guarded(session, name, part):
    """A part on a real set, or a note that the set is not here."""
    try:
        part(session, name, *TABLES[name]())
    except data.Absent as error:
        session.note(f"{name} left out: {error}")


def tables(session, name, X, y, X_test, y_test):
    """A row for each size that is wanted; ten draws, of all rows one."""
    tiny = session.options.tiny
    if tiny:
        X_test, y_test = X_test[:500], y_test[:500]
    for at, n in enumerate((100,) if tiny else (*SIZES, ALL[name])):
        if session.options.only not in ("", name, f"{name}-{n}"):
            continue
        seeds = range(1 if tiny or n == ALL[name] else session.options.draws)
        drawn = [draw(session, X, y, n, seed) for seed in seeds]
        say(f"{name}-{n}: choosing C")
        C = models.choose(name, n, drawn, tiny=tiny)
        rivals = session.options.rival_seconds > 0
        found = []
        for seed, (A, b) in zip(seeds, drawn, strict=True):
            of_draw = {}
            for label, model in models.models(name, n, seed, C, tiny=tiny, rivals=rivals):
                of_draw[label] = models.measured(
                    model, A, b, X_test, y_test, session.options.repeat
                ) | components(model)
                right, cpu = (of_draw[label][key] for key in ("right", "fit_cpu_s"))
                say(f"{name}-{n}, draw {seed + 1}, C={C:g}, {label}: {right:.2f} %, {cpu:.1f} s")
            found.append(of_draw)
        summarise(session, name, n, at, C, found)


def draw(session, X, y, n, seed):
    """n rows, without repeats; all are all in an order of their own."""
    rows = np.random.default_rng([session.options.seed, seed]).permutation(len(y))[:n]
    return X[rows], y[rows]


def components(model):
    """How many components a mixture kept, and its reads."""
    if not hasattr(model, "n_components_"):
        return {}
    records = model.history_
    return {"components": model.n_components_, "iterations": len(records)}


def summarise(session, name, n, at, C, draws):
    def values(label, key):
        return [found[label][key] for found in draws if label in found]

    def shown(label):
        right = values(label, "right")
        if not right:
            return None
        spread = f" ± {np.std(right):.2f}" if len(right) > 1 else ""
        return f"{np.mean(right):.2f}{spread}"

    def ratio(label, other, key):
        a, b = values(label, key), values(other, key)
        return float(np.median(a) / np.median(b)) if a and b else None

    paper, paper_linear = PAPER[name, "ours"], PAPER[name, "linear"]
    kept = values("ours", "components")
    session.add(
        {
            "data": name,
            "rows": n,
            "draws": len(draws),
            "C": C,
            "ours, %": shown("ours"),
            "at least, %": LEAST.get((name, n)),
            "paper, %": paper[at] if at < len(paper) else None,
            "components": f"{np.mean(kept):.1f} ({min(kept)}-{max(kept)})",
            "iterations": float(np.median(values("ours", "iterations"))),
            "RBF gate and hinge, %": shown("own"),
            "linear, %": shown("linear"),
            "paper linear, %": paper_linear[at] if at < len(paper_linear) else None,
            "RBF, %": shown("RBF"),
            "boosted, %": shown("boosted"),
            "additive, %": shown("additive"),
            "predict / linear": ratio("ours", "linear", "predict_s"),
            "RBF predict / ours": ratio("RBF", "ours", "predict_s"),
            "fit / linear": ratio("ours", "linear", "fit_s"),
            "fit CPU, s": float(np.median(values("ours", "fit_cpu_s"))),
        }
    )


def mnist():
    """Odd or even: (training rows, their labels, test rows, theirs)."""
    (_, X, y), (_, X_test, y_test) = data.mnist(data.shared_folder())
    return np.column_stack(X).astype(np.float32), y, np.column_stack(X_test).astype("f4"), y_test


def covtype():
    """Class 2 against the rest."""
    _, X, y = data.read_table(data.shared_folder() / "covtype" / "covtype_sample16.parquet")
    X, y = np.column_stack(X).astype(np.float32), (y == 2).astype(np.int8)
    rows = np.random.default_rng(0).permutation(len(y))
    test, train = rows[:TEST_ROWS], rows[TEST_ROWS:]
    return X[train], y[train], X[test], y[test]


TABLES = {"mnist": mnist, "covtype": covtype}
