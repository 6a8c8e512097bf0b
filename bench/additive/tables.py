"""The tables of the additive-spline paper (Maji 2012) on MNIST and covtype, ours beside theirs.

Tables 2, 3: odd or even digits from 2,172 oriented-gradient columns, 20,000 rows (the paper's sets
of pedestrians, which are no longer public, have 19,800 of 656).  Table 4's shape: the same models
on odd or even pixels and on covtype, class 2.  Table 5: ten digits, one against the rest, all
60,000.  Ours reads zarr or parquet under a budget; rivals have arrays in memory.  The peak of ours
is that of the whole fit, which holds no table; "features" is what they take precomputed, as a
multiple of the float32 table (the paper's Fourier features: 4).  ``--only choice``: the columns and
C of table 5 by training rows held out; ``--only "table2, linear, n=5"``: its rows called so.
"""

from bench import data
from bench.peers.ours import SAID
from bench.run import mib

from . import choice, phog
from .settings import BUDGET, KNOTS, SPLINES_5, SWEEPS, TINY_ROWS, C, mnist_rows

ROWS = 20_000
PAPER_2 = {  # degree -> n -> accuracy of D0, D1, D2
    1: {5: (89.55, 89.68, 89.93), 10: (90.42, 90.86, 89.43), 20: (90.23, 91.20, 89.06)},
    2: {5: (90.45, 90.20, 89.94), 10: (90.69, 90.73, 89.23), 20: (90.34, 91.10, 88.89)},
    3: {5: (90.03, 89.93, 88.57), 10: (90.48, 90.67, 89.14), 20: (90.39, 91.00, 88.92)},
}
PAPER_3 = {  # basis, order -> accuracy of n = 1 .. 4
    ("trigonometric", 1): (88.94, 89.59, 88.99, 89.77),
    ("trigonometric", 2): (88.94, 89.64, 89.77, 89.84),
    ("hermite", 1): (84.17, 88.01, 88.22, 89.00),
    ("hermite", 2): (84.17, 88.01, 88.70, 89.05),
}
SPLINES_4 = {
    "D0, linear, n=5": (dict(penalty_order=0, n_bases=5), 88.51),
    "D0, cubic, n=5": (dict(penalty_order=0, n_bases=5, degree=3), 89.00),
    "D1, linear, n=10": (dict(penalty_order=1, n_bases=10), 89.56),
    "D1, cubic, n=10": (dict(penalty_order=1, n_bases=10, degree=3), 89.25),
}
FOURIER = {
    "Fourier, order 1, n=4": (dict(basis="trigonometric", penalty_order=1, n_bases=8), 88.44),
    "Hermite, order 1, n=4": (dict(basis="hermite", penalty_order=1, n_bases=4), 87.67),
}
C_LINEAR = {"phog": 1.0, "pixels": 0.01, "covtype": 1.0}


def run(session):
    session.note(SAID)
    if session.options.only.startswith("choice"):
        return choice.run(session)
    for section in (table2, table3, table4, table5):
        name = section.__name__
        if session.wants(name) or session.options.only.startswith(f"{name}, "):
            try:
                section(session)
            except data.Absent as reason:
                session.note(f"{name} left out: {reason}")


def table2(session):
    """The effect of the splines' degree, number and penalty."""
    task = digits(session, "odd or even", rows=ROWS)
    baselines(session, "2", task, "phog", paper={})
    grid = {1: {5: PAPER_2[1][5]}} if session.options.tiny else PAPER_2
    for degree, counts in grid.items():
        for n_bases, accuracies in counts.items():
            for order, accuracy in enumerate(accuracies):
                model = dict(degree=degree, n_bases=n_bases, penalty_order=order)
                label = f"D{order}, {('linear', 'quadratic', 'cubic')[degree - 1]}, n={n_bases}"
                if part_of_table(session) in label:
                    ours(session, "2", task, label, model, accuracy, "phog")


def table3(session):
    """The effect of the orthogonal bases and their number."""
    task = digits(session, "odd or even", rows=ROWS)
    for (basis, order), accuracies in PAPER_3.items():
        if session.options.tiny and order == 2:
            continue
        for n, accuracy in enumerate(accuracies, 1):
            n_bases = 2 * n if basis == "trigonometric" else n
            if n_bases < 2:  # a single function is no basis here
                continue
            model = dict(basis=basis, penalty_order=order, n_bases=n_bases)
            label = f"{basis}, order {order}, n={n}"
            if part_of_table(session) in label:
                ours(session, "3", task, label, model, accuracy, "phog")
            if session.options.tiny:
                break


def table4(session):
    """The order of the models: kernel and additive ones above the linear one."""
    for name, kind in (("mnist", "pixels"), ("covtype2", "covtype")):
        if session.options.tiny:
            task = data.generated(session.options.data, 3_000, 8, seed=session.options.seed)
        else:
            task = data.real(session.options.data, name)
        paper = {"linear": 81.49, "min": 89.05}
        baselines(session, "4", task, kind, paper=paper)
        for label, (model, accuracy) in some(session, {**SPLINES_4, **FOURIER}):
            report = ours(session, "4", task, label, model, accuracy, kind)
            if kind == "pixels" and label == "D1, linear, n=10" and "error" not in report:
                found = 100 * report["accuracy"]
                session.note(f"odd or even pixels: {found:.2f} % right (above 91.5 %).")
        if session.options.tiny:
            break


def table5(session):
    """Ten digits: test error; ``--only "table5, D1, linear"``: these and the linear machine."""
    task = digits(session, "ten digits", rows=None)
    paper = {"linear": 1.44, "min": 0.79}
    only = part_of_table(session)
    names = ("linear_svc",) if only else PEERS
    linear = baselines(session, "5", task, "phog", names, paper=paper, as_error=True)
    models = dict(SPLINES_5)
    models["Hermite, order 1, n=4"] = (dict(basis="hermite", penalty_order=1, n_bases=4), 1.06)
    for label, (model, error) in some(session, models):
        if only not in label:
            continue
        report = ours(session, "5", task, label, model, error, "phog", as_error=True)
        if label == "D1, linear, n=40" and "error" not in report | linear:
            found, base = (100 * (1 - r["accuracy"]) for r in (report, linear))
            share = f"{found / base:.2f} of" if base else "against"
            session.note(
                f"D1, linear, n=40: test error {found:.2f} % (at most 0.95 %), "
                f"{share} the linear machine's {base:.2f} % (at most 0.60)."
            )


def part_of_table(session):
    """What the labels of ours must contain: X of ``--only "table2, X"``; empty for all."""
    return session.options.only.partition(", ")[2]


def some(session, models):
    """Their items; of a tiny bench two."""
    items = list(models.items())
    return items[2:6:2] if session.options.tiny else items


def digits(session, what, rows):
    """MNIST's training and test digits as oriented-gradient columns, written to zarr once."""
    folder, tiny = session.options.data, session.options.tiny
    rows = TINY_ROWS if tiny else rows
    parts = mnist_rows(folder, tiny)
    paths = []
    for part, (X, y) in parts.items():
        X, y = (X, y) if rows is None or part == "test" else (X[:rows], y[:rows])
        y = y % 2 if what == "odd or even" else y
        path = folder / phog.store_name(what, len(y), part)
        if not path.exists():
            data.write_zarr(path, phog.phog_blocks(X, y), len(y), phog.N_COLUMNS)
        paths.append(path)
    n = len(parts["train"][1]) if rows is None else min(rows, len(parts["train"][1]))
    nbytes = 4 * n * phog.N_COLUMNS
    stored = data.size_on_disk(paths[0])
    return data.Task(
        f"mnist-phog, {what}", *map(str, paths), "y", n, phog.N_COLUMNS, nbytes, stored, "zarr"
    )


def ours(session, table, task, label, model, paper, kind, *, as_error=False):
    """A row of ours."""
    options = dict(loss="hinge", solver="dual-cd", C=C[kind], knots=KNOTS[kind], **SWEEPS)
    if "basis" in model:
        options |= dict(loss="squared_hinge", solver="auto")
    label = f"table {table}, {task.name}, {label}"
    report = session.measure(
        "ours", label=label, task=task.asdict(), budget=BUDGET, **{**options, **model}
    )
    size = session.measure("feature_bytes", label=label, task=task.asdict(), model=model)
    row(session, table, task, label, report, paper, as_error, size.get("ratio"))
    return report


PEERS = ("linear_svc", "chi2_linear", "min_kernel")


def baselines(session, table, task, kind, names=PEERS, *, paper, as_error=False):
    """Rows of the linear machine, chi^2 features, the min kernel; returns the linear one's."""
    tiny = session.options.tiny
    linear = {}
    for peer, name, key, options in (
        ("linear_svc", "linear SVM, LIBLINEAR", "linear", dict(C=C_LINEAR[kind])),
        ("chi2_linear", "AdditiveChi2Sampler + LIBLINEAR", None, dict(C=C_LINEAR[kind])),
        ("min_kernel", "min-kernel SVM, 5,000 rows", "min", dict(rows=200 if tiny else 5_000)),
    ):
        if peer not in names:
            continue
        label = f"table {table}, {task.name}, {name}"
        report = session.measure(peer, label=label, task=task.asdict(), **options)
        ratio = report.get("features_ratio")
        row(session, table, task, label, report, paper.get(key), as_error, ratio)
        linear = report if key == "linear" else linear
    return linear


def row(session, table, task, label, report, paper, as_error, ratio):
    accuracy = report.get("accuracy")
    score = None if accuracy is None else 100 * (1 - accuracy if as_error else accuracy)
    session.add(
        {
            "table": table,
            "data": task.name,
            "model": label.split(", ", 3 if "phog" in task.name or "mnist" in task.name else 2)[-1],
            "measure": "test error, %" if as_error else "test accuracy, %",
            "paper": paper,
            "measured": score,
            "seconds": report.get("fit_s"),
            "passes": report.get("n_passes"),
            "gap": report.get("relative_gap"),
            "peak of the fit, MiB": mib(report.get("over_baseline_bytes")),
            "features, x table": ratio,
        }
    )
