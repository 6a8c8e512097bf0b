"""Small tables that people have, and small ones that nobody wants, as `test_defaults.py` fits them.

Each is made by a function of the question, classes or numbers, and None where it has no such table.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets

SHARED = Path(os.environ.get("STREAMLEARN_DATA", Path(__file__).parents[3] / "shared" / "data"))
ROWS = 1_200
"""Most rows of a table, in training and in test."""


class Table(NamedTuple):
    """Rows to learn from and rows held out."""

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    weight: np.ndarray | None = None
    scale: float = 1.0
    """Unit of the target: errors are judged in it."""


def divided(X, y, n_test=None, **more):
    """The table of these rows, a third of them held out by a fixed seed."""
    rows = np.random.default_rng(0).permutation(len(y))
    n_test = n_test or len(y) // 3
    test, train = np.sort(rows[:n_test][:ROWS]), np.sort(rows[n_test:][:ROWS])
    X, y = pd.DataFrame(X), np.asarray(y)
    X.columns = [str(c) for c in X.columns]
    return Table(
        X.iloc[train].reset_index(drop=True),
        y[train],
        X.iloc[test].reset_index(drop=True),
        y[test],
        **more,
    )


def bundled(name, **more):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True, as_frame=True, **more)
    return divided(X, y.to_numpy())


def adult(classifies):
    """A sample, with its strings and holes; the hours of a week as the target of regressors."""
    path = SHARED / "adult" / "train.parquet"
    if not path.exists():
        return None
    frame = pd.read_parquet(path)[:: 32_561 // (2 * ROWS)]
    target = "target" if classifies else "hours_per_week"
    y = frame[target].to_numpy()
    words = frame.select_dtypes("category").columns
    frame = frame.drop(columns=["target", target], errors="ignore")
    return divided(frame.astype({name: object for name in words}), y, len(y) // 2)


REAL = {
    "breast cancer": lambda classifies: bundled("breast_cancer") if classifies else None,
    "wine": lambda classifies: bundled("wine") if classifies else None,
    "digits": lambda classifies: bundled("digits", n_class=5) if classifies else None,
    "diabetes": lambda classifies: None if classifies else bundled("diabetes"),
    "adult": adult,
}
"""Name -> function of whether classes are learned -> the table, or None."""


def plain(classifies, n=400, p=3, seed=0):
    """Columns of numbers and a target that is nearly linear in them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    f = X[:, :3] @ np.array([2.0, -1.0, 1.0]) + 0.5 * rng.normal(size=n)
    return X, (f > 0).astype(int) if classifies else f


def with_column(classifies, column):
    """The plain table and one more column of its rows."""
    X, y = plain(classifies)
    return divided(np.column_stack([X, column(X)]), y)


def few(classifies, n):
    """So many rows to learn from, of several classes where there can be several."""
    X, y = plain(classifies)
    if classifies:
        order = np.concatenate([np.flatnonzero(y == 0)[:1], np.flatnonzero(y == 1)[:1], [9, 10]])
        order = np.concatenate([order, np.setdiff1d(np.arange(len(y)), order)])
        X, y = X[order], y[order]
    frame = pd.DataFrame(X, columns=["0", "1", "2"])
    return Table(frame[:n], y[:n], frame[n:], y[n:])


def one_class(classifies):
    X, y = plain(classifies)
    return divided(X, np.zeros_like(y))


def in_units(classifies, unit):
    if classifies:
        return None
    X, y = plain(False)
    return divided(X, unit * y, scale=unit)


def light(classifies):
    table = divided(*plain(classifies))
    return table._replace(weight=np.full(len(table.y), 1 / len(table.y)))


def gross(classifies):
    """One cell of the training rows is 1e30."""
    table = divided(*plain(classifies, p=4))
    table.X.iloc[7, 3] = 1e30
    return table


def integers(classifies):
    if classifies:
        return None
    X, y = plain(False)
    return divided(X, np.rint(y).astype(np.int32))


def wide(classifies):
    X, y = plain(classifies, n=240, p=200)
    return divided(X, y, 80)


HOSTILE = {
    "1 row": lambda classifies: few(classifies, 1),
    "2 rows": lambda classifies: few(classifies, 2),
    "3 rows": lambda classifies: few(classifies, 3),
    "one class": one_class,
    "constant column": lambda classifies: with_column(classifies, lambda X: np.full(len(X), 7.0)),
    "missing column": lambda classifies: with_column(classifies, lambda X: np.full(len(X), np.nan)),
    "equal columns": lambda classifies: with_column(classifies, lambda X: X[:, 0]),
    "target of 1e200": lambda classifies: in_units(classifies, 1e200),
    "target of 1e-200": lambda classifies: in_units(classifies, 1e-200),
    "weights of sum 1": light,
    "gross cell": gross,
    "integer target": integers,
    "wide": wide,
}
"""Name -> function of whether classes are learned -> the table, or None."""
