"""Wide tables, hard problems and small tables: ours with each solver beside scikit-learn's splines.

Every fit is in a process of its own, after `warm()` and the imports; its first fit and the best of
more are timed.  The rival is `SplineTransformer(sparse_output=True)` with `LogisticRegression` or
LIBLINEAR, all its time counted, from the same rows in memory (ours of stored tables: from disk).
"""

import subprocess
from dataclasses import asdict, dataclass, field

import numpy as np

from . import data

SOLVERS = ("auto", "newton", "lbfgs", "dual-cd")
TINY_ROWS, TINY_COLUMNS = 200, 24


@dataclass(frozen=True)
class Cell:
    """One table and what is fitted to it."""

    name: str
    rows: int = 0
    columns: int = 0
    source: str = "generated"
    """``generated``, or a set of `shared_folder`: ``mnist isolet kdd99 a9a``."""
    n_bases: int = 20
    loss: str = "log_loss"
    model: dict = field(default_factory=dict)
    """Further parameters of ours."""
    repeat: int = 1
    """Fits of a process; the first one and the best are shown."""
    solvers: tuple = ("auto",)
    limit: float = 0.7
    """Largest ratio of our seconds to the rival's."""
    stored: bool = False
    """Whether ours reads parquet from disk under a budget of 256 MiB."""

    @property
    def solver(self):
        """What ours is fitted with first, and held to the limit with."""
        return self.model.get("solver", "auto")


CELLS = (
    Cell("3 M x 10", 3_000_000, 10, limit=0.1),
    Cell("1 M x 20", 1_000_000, 20, limit=0.1, repeat=2),
    Cell("200 k x 100", 200_000, 100, solvers=SOLVERS),
    Cell("100 k x 500", 100_000, 500, n_bases=10, solvers=SOLVERS),
    Cell("mnist, dense", source="mnist", n_bases=10, model={"tol": 1e-2}, solvers=SOLVERS),
    Cell("mnist, dense, hinge", source="mnist", n_bases=10, loss="hinge",
         model={"C": 0.01, "tol": 1e-2}),
    Cell("isolet, 26 classes", source="isolet", n_bases=10, model={"tol": 1e-3}, solvers=SOLVERS),
    Cell("a9a, CSR", source="a9a", repeat=3, solvers=SOLVERS),
    Cell("kdd99, hinge", source="kdd99", loss="hinge", model={"C": 1.0, "tol": 1e-3}, stored=True),
    Cell("500 x 10,000", 500, 10_000, repeat=2, solvers=("auto", "lbfgs")),
    Cell("900 x 100,000", 900, 100_000),
    Cell("300 x 20", 300, 20, limit=1.0, repeat=7),
    Cell("3,000 x 20", 3_000, 20, limit=1.0, repeat=7),
    Cell("30,000 x 20", 30_000, 20, limit=1.0, repeat=7),
)  # fmt: skip
TINY = ("1 M x 20", "mnist, dense, hinge", "a9a, CSR", "300 x 20")
"""Cells of the tests' size: a generated table, sparse rows, a dual and a small one."""


def run(session):
    """All cells, or those that ``--only "shapes, NAME"`` names a part of."""
    tiny = session.options.tiny
    ratios = []
    for cell in CELLS:
        label = f"shapes, {cell.name}"
        if not session.wants(label) or (tiny and cell.name not in TINY):
            continue
        task = asdict(cell) | {"seed": session.options.seed, "tiny": tiny}
        if cell.stored and not tiny:
            try:
                task["train"] = data.real(session.options.data, cell.source).train
            except data.Absent as reason:
                session.note(f"{cell.name} left out: {reason}")
                continue
        ours = {
            solver: measured(session, "shapes_ours", label, task | {"solver": solver}, None)
            for solver in dict.fromkeys((cell.solver, *cell.solvers))
        }
        theirs = {}
        if session.options.rival_seconds:
            limit = session.options.rival_seconds
            theirs = measured(session, "shapes_rival", label, task, limit)
        session.add(row := row_of(cell, ours, theirs))
        if row["ratio"] is not None:
            ratios += [row["ratio"], row["ratio, best"]][: cell.repeat]
    if ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        session.note(f"shapes: geometric mean of all {len(ratios)} ratios {mean:.3f} (<= 0.25)")


def measured(session, peer, label, task, timeout):
    """The report of one process; without times if it took longer than it may."""
    try:
        return session.measure(peer, label=label, task=task, timeout=timeout or 3600)
    except subprocess.TimeoutExpired:
        session.note(f"{label}: {peer} not done after {timeout or 3600:.0f} s")
        return {}


def row_of(cell, ours, theirs):
    """One row of the table: seconds, ratios, and what our fits did."""
    main = ours[cell.solver]
    first, best = (quotient(main.get(key), theirs.get(key)) for key in ("fit_s", "best_s"))
    held = None if best is None else "yes" if max(first, best) <= cell.limit else "no"
    row = {
        "cell": cell.name,
        "ours, first, s": main.get("fit_s"),
        "ours, best, s": main.get("best_s"),
        "theirs, first, s": theirs.get("fit_s"),
        "theirs, best, s": theirs.get("best_s"),
        "ratio": first,
        "ratio, best": best,
        "limit": f"{cell.limit:g} x",
        "held": held,
        "solver": main.get("solver"),
        "reads": main.get("n_passes"),
        "in reads, s": main.get("reads_s"),
        "outside reads, s": main.get("outside_s"),
        "gap": main.get("relative_gap"),
        "accuracy, ours": main.get("accuracy"),
        "accuracy, theirs": theirs.get("accuracy"),
    }
    return row | {f"{name}, s": ours.get(name, {}).get("fit_s") for name in SOLVERS[1:]}


def quotient(a, b):
    """a / b; None if one of them was not measured."""
    return a / b if a is not None and b is not None else None


def load(task):
    """((X, y), (X, y) of test rows): float32 rows, or CSR ones of a9a."""
    if task["tiny"] or task["source"] == "generated":
        rows = TINY_ROWS if task["tiny"] else task["rows"]
        columns = TINY_COLUMNS if task["tiny"] else task["columns"]
        n_test = min(20_000, max(200, rows // 4))
        train, test = (
            tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))
            for blocks in (
                data.generate(rows, columns, seed=task["seed"]),
                data.generate(n_test, columns, seed=[task["seed"], 2]),
            )
        )
        if task["source"] == "a9a":
            train, test = (as_csr(np.floor(2 * X), y) for X, y in (train, test))
        return train, test
    shared = data.shared_folder()
    if task["source"] in ("mnist", "kdd99"):
        parts = data.mnist(shared) if task["source"] == "mnist" else data.kdd99(shared)
    else:
        files = {
            "isolet": ("isolet1_train.parquet", "isolet5_test.parquet"),
            "a9a": ("train.parquet", "test.parquet"),
        }[task["source"]]
        parts = [data.read_table(shared / task["source"] / file) for file in files]
    tables = [(np.column_stack(X).astype(np.float32), y) for _, X, y in parts]
    if task["source"] == "a9a":
        return tuple(as_csr(*table) for table in tables)
    return tuple(tables)


def as_csr(X, y):
    """The rows as CSR float32."""
    import scipy.sparse

    return scipy.sparse.csr_matrix(X.astype(np.float32)), y
