"""Peak memory of fits from disk: within the budget, and the same for 0.5 GB and 8 GB.

Each row is a fit of `AdditiveClassifier(loss="log_loss")` in a fresh process: the peak is ``VmHWM``
over resident memory after ``import streamlearn; streamlearn.warm()`` (on a cluster the largest of
its workers).  Beside it, what the same model costs with explicit features: ours as CSR + LIBLINEAR,
and `SplineTransformer` (sparse output) + `LogisticRegression`, where that fits in memory at all.
"""

import itertools
import os
import subprocess
from functools import partial

from . import data
from .peers.ours import SAID
from .run import mib

BUDGETS = ("256MiB", "64MiB")
COLUMNS = 50
RIVALS = {"ours_explicit": "CSR + LIBLINEAR, MiB", "spline_linear": "SplineTransformer, MiB"}


def run(session):
    session.note(SAID)
    compile_cost(session)
    for title, make, fits, model in jobs(session):
        labels = [f"{title}, {b}, {s}, {run_on(session, n)}" for b, s, n in fits]
        if not any(session.wants(label) for label in labels):
            continue  # before any file is written for it
        try:
            task = make()
        except data.Absent as reason:
            session.note(f"{title} left out: {reason}")
            continue
        rivals = {}
        if task.kind == "parquet" and session.options.rival_seconds:
            rivals = {peer: rival(session, peer, task, model) for peer in RIVALS}
        for label, (budget, solver, cluster) in zip(labels, fits, strict=True):
            if session.wants(label):
                report = session.measure(
                    "ours",
                    label=label,
                    task=task.asdict(),
                    budget=budget,
                    solver=solver,
                    cluster=cluster,
                    **model,
                    **limits(task, solver),
                )
                engine = run_on(session, cluster)
                session.add(row(task, budget, solver, engine, report, rivals))


def run_on(session, cluster):
    return f"{cluster} processes" if cluster else f"{session.options.threads} threads"


def compile_cost(session):
    """What the libraries and a cold compile take, and what they take from the cache."""
    for state in ("cold", "cached"):
        report = session.measure("startup", label=f"import and warm(), {state}", what="warm")
        if "error" not in report:
            session.note(
                f"import + warm() with {state} kernels: "
                f"{report['import_s'] + report['warm_s']:.1f} s, peak {mib(report['peak_bytes'])} "
                "MiB in all."
            )


def jobs(session):
    """(title, task maker, [(budget, solver, processes)], model parameters), as in the table."""
    folder, seed = session.options.data, session.options.seed
    if session.options.tiny:
        threads = [("256MiB", "newton", 0), ("256MiB", "dual-cd", 0)]
        sets = [(6_000, 8, "parquet", [*threads, ("256MiB", "newton", 2)])]
        sets += [(6_000, 8, "zarr", threads)]
        model = {"n_bases": 8}
    else:
        both = [("256MiB", "newton", 0), ("256MiB", "dual-cd", 0)]
        for name in ("covtype2", "covtype7", "kdd99"):
            yield f"{data.TITLES[name]}, parquet", partial(data.real, folder, name), both, {}
        make = partial(data.real, folder, "mnist")
        yield f"{data.TITLES['mnist']}, parquet", make, [("256MiB", "dual-cd", 0)], {"C": 0.01}
        fits = list(itertools.product(BUDGETS, ("newton", "dual-cd"), (0, 2)))
        sets = [
            (round(size * 1e9 / (4 * COLUMNS)), COLUMNS, kind, fits)
            for size in session.options.sizes
            for kind in ("parquet", "zarr")
        ]
        model = {}
    for rows, columns, kind, fits in sets:
        make = partial(data.generated, folder, rows, columns, kind=kind, seed=seed)
        yield f"{data.title(rows, columns)}, {kind}", make, fits, model


def limits(task, solver):
    """Dual CD on the generated sets is held to three sweeps: the peak is what is asked, and the gap
    it reached is in the table."""
    if solver == "dual-cd" and task.n_rows * task.n_columns > 10**8:
        return {"max_passes": 3}
    return {}


def rival(session, peer, task, model):
    """Peak of an in-memory rival over its own baseline, or why there is none."""
    needed = explicit_nbytes(task)
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > 0.8 * available:
        return f"does not fit (about {needed / 1e9:.0f} GB)"
    seconds = session.options.rival_seconds
    options = {"label": task.name, "task": task.asdict(), "sparse": True, "timeout": seconds}
    try:
        report = session.measure(peer, **options, **model)
    except subprocess.TimeoutExpired:
        return f"not done after {seconds:.0f} s"
    if "error" in report:
        return "failed"
    return f"{mib(report['over_baseline_bytes'])} ({report['fit_s']:.1f} s)"


def explicit_nbytes(task):
    """Float32 rows, two values of 12 bytes a cell as CSR, and one copy of them in the solver."""
    return task.n_rows * task.n_columns * (4 + 2 * 2 * 12)


def row(task, budget, solver, engine, report, rivals):
    over = report.get("worker_over_baseline_bytes", report.get("over_baseline_bytes"))
    return {
        "data": task.name,
        "store": f"{task.kind}, {task.stored_nbytes / 1e6:.1f} MB",
        "decoded, MB": round(task.decoded_nbytes / 1e6, 1),
        "budget": budget,
        "solver": solver,
        "run on": engine,
        "peak, MiB": mib(over) if "error" not in report else report["error"],
        **{title: rivals.get(peer) for peer, title in RIVALS.items()},
        "passes": report.get("n_passes"),
        "seconds": report.get("fit_s"),
        "accuracy": report.get("accuracy"),
        "log-loss": report.get("log_loss"),
        "relative gap": report.get("relative_gap"),
    }
