"""The constants of table 5, by training digits held out; test rows are not read.

``python -m bench additive-tables --only "choice, features"``: the settings of the columns, 6,000
digits to fit and 15,000 others to judge, by fits short of the table's in functions and sweeps;
``--only "choice, finalists"``: the best of them, 24,000 digits to fit and 12,000 others to judge.
``--only "choice, machines"``: C of both machines; four fifths of all training rows are fitted, the
rest judge.  The rows are the same for every setting and every C.
"""

import numpy as np

from bench import data

from . import phog
from .settings import BUDGET, KNOTS, SPLINES_5, SWEEPS, C, mnist_rows

MODEL = "D1, linear, n=40"
C_OURS = (0.03, 0.1, 0.3, 0.01, 1.0)
C_LINEAR = (1.0, 0.3, 0.1, 0.03, 3.0)
SETTINGS = (
    *({"sigma": 1.0, "overlap": overlap} for overlap in (1.0, 1.5, 2.0, 2.5, 3.0)),
    *({"sigma": sigma, "overlap": 1.5} for sigma in (0.7, 1.2)),
    *({"sigma": 0.8, "overlap": overlap} for overlap in (2.0, 3.0, 4.0)),
    *({"sigma": 1.0, "overlap": 1.5, "floor": floor} for floor in (0.2, 1.0, 4.0)),
    {"sigma": 1.4, "overlap": 1.5, "floor": 1.0},
    {"sigma": 0.8, "overlap": 3.0, "floor": 1.0},
)
QUICK = {"n_bases": 10, "tol": 5e-2}
"""Its held-out error is that of 40 functions and of a fifth of the gap, in a sixth of the time."""
FINALISTS = (
    {"sigma": 1.0, "overlap": 2.0},
    {"sigma": 0.8, "overlap": 3.0},
    {"sigma": 1.0, "overlap": 2.0, "floor": 1.0},
)


def run(session):
    for section in (features, finalists, machines):
        if session.options.only in ("choice", f"choice, {section.__name__}"):
            section(session)


def features(session):
    columns(session, SETTINGS, 6_000, 15_000, costs=(0.1, 1.0))


def finalists(session):
    columns(session, FINALISTS, 24_000, 12_000, costs=(0.1, 0.3, 1.0))


def columns(session, settings, fitted, judged, costs):
    """Rows for each setting of the columns: our machine, and the linear one with each C."""
    ours = options_of_ours() | QUICK | {"C": C["phog"]}
    for setting in settings[:2] if session.options.tiny else settings:
        task = split(session, fitted, judged, **setting)
        told = ", ".join(f"{name} {value:g}" for name, value in setting.items())
        measured(session, task, "ours", f"ours, {told}", **ours)
        for cost in costs[:1] if session.options.tiny else costs:
            measured(session, task, "linear_svc", f"linear SVM, {told}", C=cost)


def machines(session):
    """A row for each machine and C."""
    task = split(session)
    for name, peer, values, options in (
        (MODEL, "ours", C_OURS, options_of_ours()),
        ("linear SVM", "linear_svc", C_LINEAR, {}),
    ):
        for cost in values[:2] if session.options.tiny else values:
            measured(session, task, peer, name, C=cost, **options)


def options_of_ours():
    options = dict(loss="hinge", solver="dual-cd", knots=KNOTS["phog"], budget=BUDGET, **SWEEPS)
    return options | SPLINES_5[MODEL][0]


def measured(session, task, peer, model, **options):
    """A row."""
    label = f"choice, {model}, C={options['C']:g}"
    report = session.measure(peer, label=label, task=task.asdict(), **options)
    accuracy = report.get("accuracy")
    session.add(
        {
            "data": task.name,
            "model": model,
            "C": options["C"],
            "held-out error, %": None if accuracy is None else 100 * (1 - accuracy),
            "seconds": report.get("fit_s"),
            "gap": report.get("relative_gap"),
        }
    )


def split(session, fitted=None, judged=None, **setting):
    """Training digits as columns, drawn with the bench's seed; four fifths to fit, or so many."""
    X, y = mnist_rows(session.options.data, session.options.tiny)["train"]
    rows = np.random.default_rng(session.options.seed).permutation(len(y))
    cut = min(fitted or len(y), len(y) * 4 // 5)
    held_out = rows[cut:] if judged is None else rows[cut : cut + judged]
    paths = []
    for part, which in (("fitted", rows[:cut]), (f"held-out-of-{cut}", held_out)):
        drawn = f"{part}-{session.options.seed}"
        name = phog.store_name("digits", len(which), drawn, **setting)
        path = session.options.data / name
        if not path.exists():
            blocks = phog.phog_blocks(X[which], y[which], **setting)
            data.write_zarr(path, blocks, len(which), phog.N_COLUMNS)
        paths.append(path)
    return data.Task(
        "mnist-phog, ten digits", *map(str, paths), "y", cut, phog.N_COLUMNS,
        4 * cut * phog.N_COLUMNS, data.size_on_disk(paths[0]), "zarr",
    )  # fmt: skip
