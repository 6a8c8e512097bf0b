"""What a change cost: this checkout (head) against another commit (base), in pairs of one run.

``python -m bench regress COMMIT`` checks COMMIT out into a temporary git worktree and runs each row
by turns, base, head, base, head, ``--repeat`` times.  Every measurement is a fresh process that
imports the package and the peer (``bench/peers``) of its own tree, so the trees may differ in every
internal name; the data files are written once and read by both.  A row shows the medians of both
and, of the ratios head / base of its pairs, the median with the least and the largest.  Seconds are
wall time of what the row names; user seconds are CPU time of the whole measured part, which other
programs on the machine hardly move; peaks are ``VmHWM`` over the memory after loading.

``--only`` takes gradient, sparse_hinge, dense_epoch, million, covtype, start or memory; ``--rows``
is the size of the gradient rows, ``--sizes`` of the memory rows in GB.
"""

import contextlib
from statistics import median
from typing import NamedTuple

from . import data, pixels
from .peers.ours import SAID
from .run import ROOT, git

BUDGET = "256MiB"
COLUMNS = 50
GRADIENT_ROWS = 5_000_000
MEASURES = {"s": "seconds", "user s": "user_s", "peak, MiB": "peak_mib"}
"""Columns of the table, and the entry of a measurement that each shows."""


class Row(NamedTuple):
    """One line of the table: a peer and its options."""

    title: str
    peer: str
    options: dict
    seconds: str = "fit_s"
    """Entry of the peer's report that holds the wall time; ``"gradient"``: its quickest read."""
    cold: bool = False
    """Whether each measurement gets an empty kernel cache."""


def run(session):
    session.note(SAID)
    sections = (gradient, sparse_hinge, dense_epoch, million, covtype, start, memory)
    with worktree(session) as base:
        trees = {"base": base, "head": ROOT}
        if not session.options.tiny:  # so that no measurement below pays for a compiler
            for side in trees:
                measure(session, Row("compile", "startup", {"what": "warm"}, "warm_s"), side, trees)
        for section in sections:
            if session.wants(section.__name__):
                try:
                    for row in section(session):
                        compare(session, row, trees)
                except data.Absent as reason:
                    session.note(f"{section.__name__} left out: {reason}")


@contextlib.contextmanager
def worktree(session):
    """A checkout of the base commit, removed when it is left."""
    name, folder = session.options.commit, session.folder / "base"
    commit = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if not commit:
        raise SystemExit(f"{name!r} names no commit of a git repository at {ROOT}")
    git("worktree", "add", "--detach", str(folder), commit)
    try:
        if not (folder / "bench" / "peers").is_dir():
            raise SystemExit(f"{name!r} has no bench/peers, or git could not check it out")
        changed = " and changes that are not committed" if git("status", "--porcelain") else ""
        session.note(f"base: {commit[:12]}; head: {git('rev-parse', 'HEAD')[:12]}{changed}.")
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


def gradient(session):
    """The quickest gradient pass of a short fit, from dictionary and from plain pages."""
    rows = session.options.rows or GRADIENT_ROWS
    for pages in ("dictionary", "plain"):
        task = generated(session, rows, COLUMNS, pages=pages)
        title = f"gradient pass, {task.name}, {pages} pages"
        # a smaller tol is computed in float64 throughout
        options = {"solver": "newton", "max_passes": 5, "tol": 1e-7, "scratch": False}
        yield fit(title, task, seconds="gradient", **options)


def sparse_hinge(session):
    """Additive hinge on sparse pixels in memory, to within 1 % of the optimum."""
    task = pixels.pixel_task(session.options)
    for name, options in (
        ("order 0", {"penalty_order": 0}),
        ("order 1", {"penalty_order": 1}),
        ("order 1, ten classes", {"penalty_order": 1, "classes": 10}),
    ):
        yield Row(f"sparse hinge, {name}", "hinge_ours", {"task": task, **options})


def dense_epoch(session):
    """One epoch of dual coordinate descent on dense float32."""
    rows, columns = (500, 20) if session.options.tiny else (20_000, 656)
    for order in (0, 1):
        title = f"epoch, dense {rows:,} x {columns}, order {order}"
        options = {"rows": rows, "columns": columns, "penalty_order": order}
        yield Row(title, "epoch_ours", options)


def million(session):
    """The generated task of a million rows to a gap of 1e-6."""
    task = generated(session, 1_000_000, 20)
    yield fit(f"fit to a gap of 1e-6, {task.name}", task, tol=1e-6)


def covtype(session):
    """Log-loss on covtype, class 2 against the rest."""
    task = data.real(session.options.data, "covtype2")
    yield fit(f"fit, {task.name}", task, C=10.0)


def start(session):
    """Import, `warm()`, and a first small fit with cached and with cold kernels."""
    yield Row("import", "startup", {"what": "import"}, "import_s")
    yield Row("first fit, cached kernels", "startup", {"what": "fit"})
    if not session.options.tiny:
        yield Row("warm(), cached kernels", "startup", {"what": "warm"}, "warm_s")
        yield Row("first fit, cold kernels", "startup", {"what": "fit"}, cold=True)


def memory(session):
    """Fits from disk under budgets, by store and solver; of dual coordinate descent three sweeps,
    as only its peak is asked for."""
    for size in session.options.sizes:
        for kind, budget, solver in (
            ("parquet", "256MiB", "newton"),
            ("parquet", "64MiB", "newton"),
            ("parquet", "64MiB", "dual-cd"),
            ("zarr", "64MiB", "newton"),
        ):
            task = generated(session, round(size * 1e9 / (4 * COLUMNS)), COLUMNS, kind=kind)
            sweeps = {"max_passes": 3} if solver == "dual-cd" else {}
            title = f"memory, {task.name}, {kind}, {budget}, {solver}"
            yield fit(title, task, budget=budget, solver=solver, **sweeps)


def generated(session, rows, columns, **options):
    """The generated task; a small one where the bench is tiny."""
    rows, columns = (6_000, 8) if session.options.tiny else (rows, columns)
    return data.generated(session.options.data, rows, columns, seed=session.options.seed, **options)


def fit(title, task, *, budget=BUDGET, seconds="fit_s", **options):
    options |= {"task": task.asdict(), "budget": budget, "n_bases": 20}
    return Row(title, "ours", options, seconds)


def compare(session, row, trees):
    """Measure a row by turns and add it to the table."""
    found = [
        {side: measure(session, row, side, trees) for side in trees}
        for _ in range(session.options.repeat)
    ]
    if any("error" in report for pair in found for report in pair.values()):
        return  # the session has noted it
    line = {"row": row.title, "pairs": len(found)}
    for column, key in MEASURES.items():
        values = {side: [pair[side][key] for pair in found] for side in trees}
        line |= {f"{side}, {column}": median(of) for side, of in values.items()}
        # nothing measurable on one side says nothing of the other
        ratios = [h / b for b, h in zip(values["base"], values["head"], strict=True) if b > 0]
        shown = ratios and f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        line[f"ratio, {column}"] = shown or None
    session.add(line)


def measure(session, row, side, trees):
    """A report with `seconds`, `user_s` and `peak_mib`, or with `error`."""
    # the rooms' kernels are cached by their text, so that trees of one text share a folder
    cache = f"cold-{len(session.reports)}" if row.cold else "shared"
    label = f"{row.title}, {side}"
    report = session.measure(row.peer, label=label, cache=cache, tree=trees[side], **row.options)
    if "error" in report:
        return report
    if row.seconds == "gradient":
        reads = report["reads"]
        passes = [r for r in reads if r["kind"] == "fold" and r["name"].startswith("newton-")]
        seconds = min(read["s"] for read in passes)
    else:
        seconds = report[row.seconds]
    peak = (report["over_baseline_bytes"] or 0) / 2**20
    return report | {"seconds": seconds, "peak_mib": peak}
