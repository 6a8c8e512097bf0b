"""Rows of one subject stay together wherever a fit divides its rows.

Whatever divides rows hashes their numbers, so a fit to rows at risk, of which a subject has several
in a row, may hash numbers of subjects alone: they are fewer than those of rows.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from laws.subjects import QUICK, Subject, names

import streamlearn as sl
from streamlearn.data import order
from streamlearn.pursuit.boosting import rows as boost_rows

N, STEPS = 240, 4
PARTS = {  # sums over some rows stand for those over all; nothing is judged by the others
    "additive/screening/reading.py",
    "additive/newton/curvature.py",
}
DIVIDES = re.compile(r"\b(row_share|row_hash|halve_numbers)\(")
DIVIDED = {
    *PARTS,
    "data/order.py",
    "data/encoding.py",
    "passes/sample.py",
    "solvers/splits.py",
    "pursuit/boosting/kernels.py",
    "pursuit/boosting/rows.py",
    "testing/folds.py",
}
"""Files in which numbers of rows are hashed."""
FITTED = [n for n in names() if not (Subject(n).compresses or Subject(n).transforms)]
MORE = {
    "AdditiveClassifier": {"calibration": "isotonic"},
    "JensenShannonBoostClassifier": {"n_learners": 2},
    "JensenShannonBoostClassifierCV": {"n_learners": [1, 2], "tau": 30.0, "cv": 2},
}
"""Name -> parameters that make its fit divide rows in one more way, or that are quicker."""


@pytest.fixture
def hashed(monkeypatch):
    """The largest numbers that were hashed."""
    most = []
    hash_rows, halve = order.row_hash, boost_rows.halve_numbers

    def row_hash(rows, seed):
        most.append(max(rows, default=0) if isinstance(rows, range) else np.max(rows, initial=0))
        return hash_rows(rows, seed)

    def halve_numbers(h, seed, half):
        most.append(np.max(h, initial=0))
        halve(h, seed, half)

    def halve_rows(*_):
        most.append(np.inf)

    monkeypatch.setattr(order, "row_hash", row_hash)
    monkeypatch.setattr(boost_rows, "halve_numbers", halve_numbers)
    monkeypatch.setattr(boost_rows, "halve_rows", halve_rows)
    return most


def rows_of(classifies):
    """Rows at risk of subjects without equals, of whom nearly all enter several steps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    score = X[:, 0] + 0.5 * rng.normal(size=N)
    if classifies:
        table["y"] = np.digitize(score, [-1.0, -0.5, 0.0, 0.5])
        return sl.open_dataset(table, target="y").ordinal_steps(range(STEPS + 1))
    table["time"], table["y"] = np.exp(score), (rng.random(N) < 0.8).astype(int)
    return sl.open_dataset(table, target="y").at_risk("time", [0.3, 0.7, 1.5, 9.0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "held_out"),
    [(n, share) for n in FITTED for share in (None, 0.2) if share is None or not n.endswith("CV")],
)
def test_a_fit_hashes_numbers_of_subjects(name, held_out, hashed):
    subject = Subject(name)
    model = getattr(sl, name)(**{**QUICK[name], **MORE.get(name, {})})
    model.fit(rows_of(subject.classifies), validation=held_out)
    assert max(hashed, default=0) < N


def test_every_file_that_hashes_numbers_of_rows_is_known():
    room = Path(sl.__file__).parent
    found = {
        str(path.relative_to(room))
        for path in room.rglob("*.py")
        if DIVIDES.search(path.read_text())
    }
    assert found == DIVIDED
