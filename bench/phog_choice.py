"""C of table 5's machines, ours and the linear one, by training digits held out.

``python -m bench additive-tables --only choice``; four fifths of all training rows are fitted, the
rest judge, the same rows for every C.  Test rows are not read.
"""

import numpy as np

from . import data, phog
from .additive_tables import BUDGET, KNOTS, SPLINES_5, SWEEPS, mnist_rows

MODEL = "D1, linear, n=40"
C_OURS = (0.03, 0.1, 0.3, 0.01, 1.0)
C_LINEAR = (1.0, 0.3, 0.1, 0.03, 3.0)


def run(session):
    """A row for each machine and C; ``--only "choice, linear SVM"``: of those so named."""
    task = split(session)
    ours = dict(loss="hinge", solver="dual-cd", knots=KNOTS["phog"], budget=BUDGET, **SWEEPS)
    ours |= SPLINES_5[MODEL][0]
    for name, peer, values, options in (
        (MODEL, "ours", C_OURS, ours),
        ("linear SVM", "linear_svc", C_LINEAR, {}),
    ):
        for C in values[:2] if session.options.tiny else values:
            label = f"choice, {name}, C={C:g}"
            if session.options.only not in label:
                continue
            report = session.measure(peer, label=label, task=task.asdict(), C=C, **options)
            accuracy = report.get("accuracy")
            session.add(
                {
                    "data": task.name,
                    "model": name,
                    "C": C,
                    "held-out error, %": None if accuracy is None else 100 * (1 - accuracy),
                    "seconds": report.get("fit_s"),
                    "gap": report.get("relative_gap"),
                }
            )


def split(session):
    """The training digits as columns, a fifth of them, drawn with the bench's seed, held out."""
    X, y = mnist_rows(session.options.data, session.options.tiny)["train"]
    rows = np.random.default_rng(session.options.seed).permutation(len(y))
    cut = len(y) * 4 // 5
    paths = []
    for part, which in (("fitted", rows[:cut]), ("held-out", rows[cut:])):
        path = session.options.data / f"phog-{part}-{len(which)}-{session.options.seed}.zarr"
        if not path.exists():
            blocks = phog.phog_blocks(X[which], y[which])
            data.write_zarr(path, blocks, len(which), phog.N_COLUMNS)
        paths.append(path)
    return data.Task(
        "mnist-phog, ten digits", *map(str, paths), "y", cut, phog.N_COLUMNS,
        4 * cut * phog.N_COLUMNS, data.size_on_disk(paths[0]), "zarr",
    )  # fmt: skip
