"""Sharing, products, stumps and pieces: `ShareBoostClassifier` beside its rivals, in memory."""

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np


def prepare(**options):
    import streamlearn

    streamlearn.warm("shareboost")


class Task(NamedTuple):
    """What a run is asked for."""

    shared: Path
    tiny: bool
    rivals: bool
    n_templates: int
    n_rows: int
    """0: all."""


def run(report, *, what, shared, threads, **task):
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        report["rows"] = PARTS[what](Task(Path(shared), **task))


def boost(n, **parameters):
    from streamlearn import ShareBoostClassifier

    return ShareBoostClassifier(n, **parameters)


def error_path(model, X, y):
    """(n, error) along the path."""
    return [(int(n), 1 - model.at(n).score(X, y)) for n in model.path_["n"] if n]


def least_n(path, error):
    """Fewest columns with at most this error; None if never."""
    return next((n for n, e in path if e <= error), None)


# Fig. 2: columns needed against classes, shared or chosen for each class by itself.


def sharing(task):
    from bench import patches

    if task.tiny:
        from bench.shareboost_digits import images

        X, y = images(task.shared, "train", True)
        counts, n_templates, goal, most = (2, 4), 20, 0.2, 10
    else:
        table = np.load(task.shared / "char74k" / "english_digits_upper_32.npz")
        X, y = table["images"][table["good"]], table["target"][table["good"]]
        counts, n_templates, goal, most = (2, 5, 10, 20, 36), min(task.n_templates, 200), 0.2, 100
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    train = np.arange(len(y)) < 0.7 * len(y)
    learned = patches.learn(X[train], n_templates, **CHARACTERS)
    V = patches.responses(learned, X)
    rows = []
    for K in counts:
        chosen = y < K
        a, b = chosen & train, chosen & ~train
        model = boost(min(most, V.shape[1]), **LETTERS).fit(V[a], y[a])
        path = error_path(model, V[b], y[b])
        ours = least_n(path, goal)
        row = {
            "classes": K,
            "columns for 20 % error": ours,
            "least error, %": 100 * min(e for _, e in path),
        }
        if task.rivals:
            rest, n_all = one_vs_rest(V[a], y[a], V[b], y[b], K, goal, 4 * most // 10)
            row |= {
                "one-vs-rest's": rest or f"> {n_all}",
                "ratio": ours / (rest or n_all) if ours else None,
            }
        rows.append(row)
    return rows


CHARACTERS = {"spread": 4.5, "damp": 1.0, "either_sign": True}
"""Of `patches.learn`, for the letters; chosen with the ridge on a quarter of the training rows."""
LETTERS = {"ridge": 1e-4, "columns_per_pass": 1}


def one_vs_rest(X, y, Xt, yt, K, goal, most):
    """Distinct columns of K binary models, each with as many of its own, at the goal.

    None if `most` of each do not reach it; and how many distinct ones all of them have.
    """
    models = [boost(most, **LETTERS).fit(X, (y == k).astype(int)) for k in range(K)]
    distinct = 0
    for n in range(1, most + 1):
        at = [model.at(n) for model in models]
        scores = np.column_stack([model.decision_function(Xt) for model in at])
        distinct = len({choice for model in at for choice in model.choices_})
        if np.mean(scores.argmax(axis=1) != yt) <= goal:
            return distinct, distinct
    return None, distinct


# Fig. 5: products against the mixed norm, stumps against boosting.

UCI = {
    "satimage": ("satimage/train.parquet", "satimage/test.parquet"),
    "pendigits": ("pendigits/train.parquet", "pendigits/test.parquet"),
    "isolet": ("isolet/isolet1_train.parquet", "isolet/isolet5_test.parquet"),
}


def uci(shared, tiny):
    """Name, training and test rows, in [-1, 1]."""
    if tiny:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X = X[:, 20:40]
        yield "digits", X[:900] / 8 - 1, y[:900], X[900:] / 8 - 1, y[900:]
        return
    from bench.data import read_table

    for name, files in UCI.items():
        (_, X, y), (_, Xt, yt) = (read_table(shared / file) for file in files)
        X, Xt = np.column_stack(X).astype(float), np.column_stack(Xt).astype(float)
        low, high = X.min(axis=0), X.max(axis=0)
        scale = np.where(high > low, high - low, 1.0)
        yield name, 2 * (X - low) / scale - 1, y, 2 * (Xt - low) / scale - 1, yt


def products(task):
    rows = []
    for name, X, y, Xt, yt in uci(task.shared, task.tiny):
        p = X.shape[1]
        n = 10 if task.tiny else 60
        model = boost(n, candidates="products", ridge=1e-5).fit(X, y)
        path = error_path(model, Xt, yt)
        mixed = {}
        if task.rivals:
            from bench.peers.mixed_norm import path_of

            # 15 GFlop a step with the 190,036 products of isolet
            how = {"n_lambdas": 6, "iterations": 50} if p > 100 else {"n_lambdas": 12}
            mixed = path_of(X, y, Xt, yt, **({"n_lambdas": 4} if task.tiny else how))
        for n_columns in (5, 10, 20, 40, 60):
            here = [e for k, e in path if k <= n_columns]
            if not here or n_columns > n:
                continue
            row = {
                "data": name,
                "candidates": p * (p - 1) // 2,
                "columns": n_columns,
                "test error, %": 100 * here[-1],
            }
            if mixed:
                near = [e for k, e in mixed.items() if 0 < k <= n_columns]
                row["mixed norm's, %"] = 100 * min(near) if near else None
            rows.append(row)
    return rows


def stumps(task):
    rows = []
    for name, X, y, Xt, yt in uci(task.shared, task.tiny):
        n = 20 if task.tiny else 100
        model = boost(n, candidates="stumps", ridge=1e-5).fit(X, y)
        path = error_path(model, Xt, yt)
        other = {}
        if task.rivals:
            from sklearn.ensemble import GradientBoostingClassifier

            K = len(np.unique(y))
            rounds = max(1, 2 * n // K)
            rival = GradientBoostingClassifier(
                n_estimators=rounds, max_depth=1, learning_rate=0.5, random_state=0
            ).fit(X, y)
            staged = rival.staged_predict(Xt)
            other = {K * (r + 1): np.mean(p != yt) for r, p in enumerate(staged)}
        for n_stumps in (10, 20, 40, 100):
            here = [e for k, e in path if k <= n_stumps]
            if not here or n_stumps > n:
                continue
            row = {"data": name, "stumps": n_stumps, "test error, %": 100 * here[-1]}
            if other:
                near = [e for k, e in other.items() if k <= n_stumps]
                row["boosting's, %"] = 100 * near[-1] if near else None
            rows.append(row)
    return rows


# Fig. 4: pieces against an RBF SVM.


def pieces(task):
    from bench.shareboost_digits import images

    X, y = images(task.shared, "train", task.tiny)
    Xt, yt = images(task.shared, "test", task.tiny)
    X, Xt = (part.reshape(len(part), -1).astype(np.float32) / 255 for part in (X, Xt))
    if task.n_rows:
        X, y = X[: task.n_rows], y[: task.n_rows]
    q = 10 if task.tiny else 50
    mean = X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((X - mean).T))
    axes = vectors[:, -q:].astype(np.float32)
    V, Vt = (X - mean) @ axes, (Xt - mean) @ axes
    how = {"n_anchors": 20, "n_radii": 5} if task.tiny else {"n_anchors": 1500, "n_radii": 35}
    n = 6 if task.tiny else 230
    model = boost(n, candidates="pieces", ridge=PIECES_RIDGE, **how).fit(V, y)
    rows = []
    for size in [k for k in (1, 10, 25, 50, 100, 150, 200) if k < n] + [n]:
        at = model.at(size)
        row = {"pieces": len(at.choices_), "test error, %": 100 * (1 - at.score(Vt, yt))}
        rows.append(row | {"anchors": len({a for a, _ in at.choices_})})
    if task.rivals:
        from sklearn.svm import SVC

        svm = SVC(C=10, gamma=0.025, cache_size=1000).fit(V, y)
        rows.append({"test error, %": 100 * (1 - svm.score(Vt, yt)), "pieces": "RBF SVM",
                     "anchors": len(svm.support_)})  # fmt: skip
    return rows


PIECES_RIDGE = 1e-5


# How the features and the ridge of the digits were chosen: by training images held out.

LOOKS = {
    "grey": {},
    "upright": {"upright": True},
    "upright, damped": {"upright": True, "damp": 1.0},
    "upright, damped, masks 4 wide": {"upright": True, "damp": 1.0, "spread": 4.0},
    "upright, damped, masks 5.5 wide": {"upright": True, "damp": 1.0, "spread": 5.5},
    "upright, damped, masks 8 wide": {"upright": True, "damp": 1.0, "spread": 8.0},
    "upright edges": {"upright": True, "channels": 4, "damp": 0.1},
}
RIDGES = (1e-6, 3e-6, 1e-5, 3e-5)
"""Tried with `shareboost_digits.FEATURES`."""


def choice(task):
    from bench import patches
    from bench.shareboost_digits import FEATURES, images
    from bench.shareboost_tables import RIDGE, TOL

    X, y = images(task.shared, "train", task.tiny)
    order = np.random.default_rng(5).permutation(len(y))[: task.n_rows or None]
    X, y = X[order], y[order]
    n_templates, n = (20, 10) if task.tiny else (task.n_templates, 266)
    cut = len(y) * 5 // 6
    rows = []
    for look, how in LOOKS.items():
        V = patches.responses(patches.learn(X[:cut], n_templates, **how), X)
        for ridge in RIDGES if how == FEATURES else (RIDGE,):
            model = boost(n, ridge=ridge, tol=TOL)
            model.fit(V[:cut], y[:cut], validation=(V[cut:], y[cut:]))
            path = model.path_
            for size in (25, 75, 150, n):
                at = int(np.flatnonzero(path["n"] <= size)[-1])
                rows.append(
                    {
                        "features": look,
                        "ridge": ridge,
                        "columns": int(path["n"][at]),
                        "held-out error, %": 100 * path["validation_error"][at],
                        "held-out loss": path["validation_loss"][at],
                    }
                )
    return rows


PARTS = {
    "sharing": sharing,
    "products": products,
    "stumps": stumps,
    "pieces": pieces,
    "choice": choice,
}
