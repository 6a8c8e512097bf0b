"""The columns of the matrix: what each family is asked, as a check that means something.

A cell is `CELLS[column](subject, tools)`.  It returns when what its docstring says holds of the
subject, and lets the error through by which the subject refuses; `matrix.py` says which may.
"""

import json
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from laws.subjects import ONE, QUICK, STREAMS
from scipy import sparse

import streamlearn as sl
from streamlearn.cli import main
from streamlearn.cli.group import DONE, FAILED, NOT_CONVERGED
from streamlearn.engine import lanes
from streamlearn.plotting import draw_model
from streamlearn.solvers.splits import split_shares

N = 240
WORDS = np.array(["few", "many", "some"])
TIGHT = {"tol": 1e-9, "random_state": 0}
"""So near to the optimum that fits of the same problem can be compared; beside `ONE` candidate,
because which of several is chosen depends on splits, and these on the rows' numbers."""
UNSHIFTED = {"intercept_scaling": 1e4, "scaling": "none"}
"""Sparse rows are not centred, so that what a penalty holds near 0 is another thing: here no
intercept is held, and columns are as they are."""
LEVELS = 100_000


def table(n=N, seed=0):
    """Three columns of numbers, the second of three values, and a real target of all of them."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3), dtype=np.float32)
    X[:, 1] = rng.integers(0, 3, n)
    f = np.sin(6 * X[:, 0]) + X[:, 1] - 1 + X[:, 2]
    return X, f + 0.3 * rng.standard_normal(n)


def close(a, b, tol):
    np.testing.assert_allclose(a, b, rtol=0, atol=tol * np.abs(b).max())


def known(subject, **wanted):
    """Those of these parameters that the subject has."""
    if subject.compresses:
        return {k: v for k, v in wanted.items() if k in sl.SuperSparseClassifier().get_params()}
    return {k: v for k, v in wanted.items() if k in subject.kind().get_params()}


def learns(subject, frame, side, share=0.97):
    """The subject finds `side` (n,) bool, which a column that is no plain number decides.

    What is compressed has found it before; an embedding tells the sides apart: linear regression on
    the features finds it.
    """
    y = side.astype(int) if subject.classifies else side.astype(float)
    model = subject.fit(frame, y)
    if subject.transforms:
        psi = np.column_stack([subject.answer(model, frame), np.ones(len(frame))])
        fitted = psi @ np.linalg.lstsq(psi, side.astype(float), rcond=None)[0]
    else:
        fitted = model.predict(frame).astype(float)
    assert np.mean((fitted > 0.5) == side) >= share


def multiclass(subject, tools):
    """Three classes of words: the decisions of their codes, bit for bit, a column a class; every
    class of well separated groups is found."""
    X, _ = table()
    y = np.arange(N) % 3
    X[:, 0] += 4 * (y == 1)
    X[:, 2] += 4 * (y == 2)
    model = subject.fit(X, WORDS[y])
    if subject.transforms:  # a target is not looked at
        coded = subject.kind(**subject.make().get_params()).fit(X, y)
        np.testing.assert_array_equal(subject.answer(model, X), subject.answer(coded, X))
        return
    subject.original = None
    coded = subject.fit(X, y)
    decision = subject.answer(model, X)
    assert decision.shape == (N, 3)
    np.testing.assert_array_equal(decision, subject.answer(coded, X))
    np.testing.assert_array_equal(model.classes_, WORDS)
    assert np.mean(model.predict(X) == WORDS[y]) >= 0.98


def weights(subject, tools):
    """A weight of k is k copies of the row, and a weight of 0 its absence."""
    X, z = table()
    w = np.random.default_rng(1).integers(0, 3, N)
    y, more = subject.target(z), known(subject, **TIGHT, **ONE.get(subject.name, {}))
    weighted = subject.fit(X, y, w.astype(float), **more)
    copied = subject.fit(np.repeat(X, w, axis=0), np.repeat(y, w), **more)
    close(subject.answer(weighted, X), subject.answer(copied, X), 2e-3)


def class_weight(subject, tools):
    """A factor for a class is that factor on the weights of its rows, bit for bit."""
    X, z = table()
    y = (z > np.quantile(z, 0.25)).astype(int)
    w = np.random.default_rng(2).integers(1, 4, N).astype(float)
    counts = np.bincount(y, w)
    # where each split is a fit of its own, class weights are those of its rows, and scores weigh
    # rows as they are: another candidate may be chosen
    more = {} if subject.name.startswith("Additive") else ONE.get(subject.name, {})
    subject.fit(X, y)  # so that what is compressed is known
    of = subject.original.predict(X) if subject.compresses else y
    if subject.compresses:
        counts = np.bincount(of, w)
    for given, factors in (
        ({1: 3.0}, np.array([1.0, 3.0])),
        ("balanced", counts.sum() / (2 * counts)),
    ):
        weighed = subject.fit(X, y, w, class_weight=given, **more)
        by_hand = subject.fit(X, y, w * factors[of], **more)
        np.testing.assert_array_equal(subject.answer(weighed, X), subject.answer(by_hand, X))
    plain = subject.fit(X, y, w, **more)
    assert np.abs(subject.answer(plain, X) - subject.answer(by_hand, X)).max() > 1e-4


def csr(subject, tools):
    """Sparse rows give the model of the same rows dense, to rounding, and the same answers, where
    no intercept is held near 0 and columns keep their scale: sparse columns are not centred, so
    that the defaults of several families penalise another thing."""
    X, z = table()
    X[:, 0][X[:, 0] < 0.4] = 0
    X[:, 2][X[:, 2] < 0.6] = 0
    y, more = (
        subject.target(z),
        known(subject, **TIGHT, **UNSHIFTED, **ONE.get(subject.name, {})),
    )
    dense = subject.fit(X, y, **more)
    rows = sparse.csr_array(X)
    fitted = subject.fit(rows, y, **more)
    close(subject.answer(dense, rows), subject.answer(dense, X), 1e-6)
    one, other = subject.answer(fitted, rows), subject.answer(dense, X)
    if subject.transforms:  # features are 0 where a value is absent, else in the mean: a constant
        one, other = one - one.mean(axis=0), other - other.mean(axis=0)
    close(one, other, 1e-3)


def missing(subject, tools):
    """Where a number is missing is found: it decides the target."""
    X, _ = table()
    hole = np.random.default_rng(3).random(N) < 0.4
    X[hole, 0] = np.nan
    learns(subject, pd.DataFrame(X, columns=["a", "b", "c"]), hole)


def strings(subject, tools):
    """A column of three words decides the target."""
    X, _ = table()
    city = np.random.default_rng(4).choice(["bern", "oslo", "rome"], N)
    learns(subject, pd.DataFrame(X, columns=["a", "b", "c"]).assign(city=city), city == "oslo")


def levels(subject, tools):
    """A column of 100,000 words, two of them frequent; these decide, and are found among all."""
    n = LEVELS + 20_000
    rng = np.random.default_rng(5)
    code = np.concatenate([np.arange(LEVELS), np.repeat([3, 4], 10_000)])
    code = code[rng.permutation(n)]
    frame = pd.DataFrame({"a": rng.random(n, dtype=np.float32)}).assign(
        city=[f"c{k}" for k in code.tolist()]
    )
    often, side = np.isin(code, (3, 4)), code == 3
    y = side.astype(int) if subject.classifies else side.astype(float)
    model = subject.fit(frame, y)
    fitted = model.predict(frame[often]).astype(float)
    assert np.mean((fitted > 0.5) == side[often]) == 1.0


def dates(subject, tools):
    """A column of times decides the target: before or after one of them."""
    X, _ = table()
    days = np.random.default_rng(6).permutation(N)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(days, unit="D")
    learns(subject, frame, days >= N // 2, 0.93)


def booleans(subject, tools):
    """A column of True and False decides the target."""
    X, _ = table()
    flag = np.random.default_rng(7).random(N) < 0.5
    learns(subject, pd.DataFrame(X, columns=["a", "b", "c"]).assign(flag=flag), ~flag)


def partial_fit(subject, tools):
    """Four batches, saved and loaded after the second: the model of a stream that never stopped,
    bit for bit."""
    X, z = table(2_000)
    y = subject.target(z)
    first = {"classes": [0, 1]} if subject.classifies else {}
    more = STREAMS.get(subject.name, {})
    if subject.compresses:
        _ = subject.kind.partial_fit
    stream, saved = subject.make(**more), subject.make(**more)
    for k, part in enumerate(np.array_split(np.arange(len(X)), 4)):
        stream.partial_fit(X[part], y[part], **(first if k == 0 else {}))
        saved.partial_fit(X[part], y[part], **(first if k == 0 else {}))
        if k == 1:
            sl.save(saved, tools.folder / "stream.slm")
            saved = sl.load(tools.folder / "stream.slm")
    np.testing.assert_array_equal(subject.answer(saved, X), subject.answer(stream, X))
    assert np.isfinite(subject.answer(saved, X)).all()


class Stop(Exception):
    """Ends a fit in the middle of a read."""


def checkpoint(subject, tools):
    """A fit that ends in the middle goes on from its checkpoint, to the same bits."""
    data = tools.dataset(subject)
    subject.fit(data)  # so that what is compressed is fitted
    run = tools.folder / "run"
    reads, read = [0], lanes.RetryingReader.read

    def counted(self, ref):
        reads[0] += 1
        if 0 < stop_at <= reads[0]:  # until it goes on: a read that is shared is tried again
            raise Stop("in the middle of a read")
        return read(self, ref)

    with patch.object(lanes.RetryingReader, "read", counted):
        stop_at = 0
        whole = subject.fit(data)
        stop_at, reads[0] = max(2, reads[0] // 2), 0
        with pytest.raises(Stop, match="in the middle of a read"):
            subject.fit(data, checkpoint=run)
        stop_at = 0
        resumed = subject.fit(data, checkpoint=run)
    X, _ = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_array_equal(subject.answer(resumed, frame), subject.answer(whole, frame))


def cluster(subject, tools):
    """Two worker processes give the model of one process, bit for bit."""
    data = tools.dataset(subject)
    here = subject.fit(data)
    with tools.workers():
        there = subject.fit(data)
    X, _ = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_array_equal(subject.answer(there, frame), subject.answer(here, frame))


def cross_validate(subject, tools):
    """Scores of rows held out are those of a fit to the others, made by hand, bit for bit.

    One fit gives boosting's models of any number of learners, and pursuit's of two tau; every other
    family fits each candidate by itself, and all of them share the reads of the splits.
    """
    data = tools.dataset(subject)
    model = subject.make()
    found = sl.cross_validate(subject.kind if subject.compresses else model, data, 2)
    edges, seed = split_shares(2, 0, around_choice=hasattr(model, "cv"))
    parts = [data.where_hash(*edges[k : k + 2], seed) for k in range(2)]
    by_hand = [subject.fit(parts[1]).score(parts[0]), subject.fit(parts[0]).score(parts[1])]
    np.testing.assert_array_equal(found.scores[0], by_hand)


def probability(subject, tools):
    """Probabilities add up to 1, their largest is the prediction, and weighed by the rows they are
    as frequent as the classes."""
    X, z = table()
    y = subject.target(z)
    model = subject.fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(p))
    assert abs(p[:, 1].mean() - y.mean()) < 0.05


def picture(subject, tools):
    """`streamlearn plot` draws what the family learned, beside how its fit converged."""
    X, z = table()
    model = subject.fit(X, subject.target(z))
    paths = [Path(path) for path in draw_model(model, tools.folder / "pictures")]
    assert len(paths) > 1
    assert "convergence" in {path.stem for path in paths}
    assert all(path.stat().st_size > 2_000 for path in paths)


def save(subject, tools):
    """A file of the model gives the same bits and the same parameters."""
    X, z = table()
    model = subject.fit(X, subject.target(z))
    sl.save(model, tools.folder / "model.slm")
    copy = sl.load(tools.folder / "model.slm")
    np.testing.assert_array_equal(subject.answer(copy, X), subject.answer(model, X))
    assert copy.get_params() == model.get_params()


def command_line(subject, tools):
    """``streamlearn fit`` (or ``compress``) and ``predict`` give the bits of the same calls."""
    path, model_file = tools.path(subject), str(tools.folder / "cli.slm")
    data = sl.open_dataset(path, target="y")
    here = subject.fit(data)
    settings = [f"--set={key}={json.dumps(value)}" for key, value in QUICK[subject.name].items()]
    command = ["fit", path, "-t", "y", "--model", subject.name, "-o", model_file, *settings]
    if subject.compresses:
        sl.save(subject.original, tools.folder / "original.slm")
        n = f"--prototypes={QUICK[subject.name]['n_prototypes']}"
        command = ["compress", str(tools.folder / "original.slm"), path, n, "-o", model_file]
        command += [setting for setting in settings if "n_prototypes" not in setting]
    done = CliRunner().invoke(main, command)
    if done.exit_code == FAILED:
        raise ValueError(done.output.removeprefix("error: ").strip())
    assert done.exit_code in (DONE, NOT_CONVERGED), done.output
    out = str(tools.folder / "answers.parquet")
    done = CliRunner().invoke(main, ["predict", model_file, path, "-o", out])
    assert done.exit_code == DONE, done.output
    frame = pd.read_parquet(path)[["a", "b", "c"]]
    np.testing.assert_array_equal(pd.read_parquet(out).iloc[:, 0], here.predict(frame))
