"""Write the models and checkpoints that later versions must read, or refuse by name.

    python tests/stored/make.py FOLDER

Run with the version whose files are wanted; ``tests/stored/format-1`` was written by 9bc0815, and
``additive-multinomial`` in it by 7edffc2, before files said how the classes were fitted.
Public names only, so that any later version can write the archives of its own format.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import streamlearn as sl

ROWS = 400


def table(n_classes=2, seed=0):
    """Rows of three columns, a column of few values among them, and their classes or numbers."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.random(ROWS), rng.normal(size=ROWS), rng.integers(0, 4, ROWS)])
    signal = np.sin(6 * X[:, 0]) + X[:, 1] - 0.5 * X[:, 2]
    if n_classes == 0:
        return X, signal
    cuts = np.quantile(signal, np.linspace(0, 1, n_classes + 1)[1:-1])
    return X, np.array(["low", "middle", "high"])[np.searchsorted(cuts, signal)]


def words(n):
    """A frame with strings and a missing value."""
    import pandas as pd

    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.random(n), "city": rng.choice(["ulm", "bern", "graz"], n)})
    frame.loc[3, "a"] = np.nan
    return frame, (frame["city"] == "ulm").to_numpy() ^ (frame["a"].to_numpy() > 0.5)


def models():
    """(name, model, X, y) of every family."""
    X2, y2 = table(2)
    X3, y3 = table(3)
    Xr, yr = table(0)
    Xw, yw = words(ROWS)
    exact = {"random_state": 0}
    # as the defaults were when the checkpoint was written
    apart = sl.AdditiveClassifier(C=1.0, n_bases=5, interactions=0, multi_class="ovr")
    yield "additive-classifier", apart, X3, y3
    joint = sl.AdditiveClassifier(n_bases=5, multi_class="multinomial")
    yield "additive-multinomial", joint, X3, y3
    yield (
        "additive-hinge",
        sl.AdditiveClassifier(loss="hinge", n_bases=5, calibration="isotonic"),
        X2,
        y2,
    )
    yield "additive-words", sl.AdditiveClassifier(n_bases=5), Xw, yw
    yield "additive-fourier", sl.AdditiveClassifier(basis="cosine", n_bases=4), X2, y2
    yield "additive-regressor", sl.AdditiveRegressor(n_bases=5), Xr, yr
    yield "additive-cv", sl.AdditiveClassifierCV(Cs=2, n_bases=[4, 5], cv=2), X2, y2
    yield "mixture", sl.SVMMixtureClassifier(2, expert_loss="squared_hinge", **exact), X2, y2
    yield (
        "mixture-tree",
        sl.SVMMixtureClassifier((2, 2), gate="linear", expert_loss="log_loss", **exact),
        X3,
        y3,
    )
    yield "shareboost", sl.ShareBoostClassifier(2), X3, y3
    yield "shareboost-stumps", sl.ShareBoostClassifier(2, candidates="stumps"), X3, y3
    yield "pursuit", sl.ProjectionPursuitRegressor(n_terms=2), Xr, yr
    yield "pursuit-lines", sl.ProjectionPursuitRegressor(n_terms=1, smoother="supsmu"), Xr, yr
    yield "boosting", sl.JensenShannonBoostClassifier(n_learners=2), X3, y3
    yield "supersparse-classifier", sl.SuperSparseClassifier(3, **exact), X3, y3
    yield "supersparse-regressor", sl.SuperSparseRegressor(3, **exact), Xr, yr


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, model, X, y in models():
        kept = name in ("additive-classifier", "mixture")
        fitted = model.fit(X, y, checkpoint=folder / f"{name}.checkpoint" if kept else None)
        sl.save(fitted, folder / f"{name}.slm")
        answer = getattr(fitted, "decision_function", fitted.predict)
        np.save(folder / f"{name}.npy", answer(X)[:20])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
