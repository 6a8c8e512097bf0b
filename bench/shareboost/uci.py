"""Fig. 5 of the paper: products against the mixed norm, stumps against boosting, on UCI sets."""

import numpy as np

from bench.data import read_table

from .fits import boost, error_path

SETS = {
    "satimage": ("train", "test"),
    "pendigits": ("train", "test"),
    "isolet": ("isolet1_train", "isolet5_test"),  # one group of speakers of four to learn from
}
RIDGES = (1e-5, 1e-4, 1e-3)
"""Of these the one with the least loss on a quarter of the training rows, held out, is taken."""


def uci(task):
    """Training rows, their labels, test rows, their labels; columns in [-1, 1] on the former."""
    if task.tiny:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X = X[:, 20:40]
        return X[:900] / 8 - 1, y[:900], X[900:] / 8 - 1, y[900:]
    files = [task.shared / task.data / f"{part}.parquet" for part in SETS[task.data]]
    (_, X, y), (_, Xt, yt) = map(read_table, files)
    X, Xt = np.column_stack(X).astype(float), np.column_stack(Xt).astype(float)
    low, high = X.min(axis=0), X.max(axis=0)
    scale = np.where(high > low, high - low, 1.0)
    return 2 * (X - low) / scale - 1, y, 2 * (Xt - low) / scale - 1, yt


def fit_with_choice(n, X, y, **how):
    """(ridge, model of all rows); the ridge is chosen with a third of the columns."""
    order = np.random.default_rng(0).permutation(len(y))
    out, rest = np.split(order, [len(y) // 4])
    losses = {}
    for ridge in RIDGES:
        model = boost(max(n // 3, 1), ridge=ridge, **how)
        model.fit(X[rest], y[rest], validation=(X[out], y[out]))
        losses[ridge] = model.path_["validation_loss"][-1]
    ridge = min(losses, key=losses.get)
    return ridge, boost(n, ridge=ridge, **how).fit(X, y)


def products(task):
    rows = []
    X, y, Xt, yt = uci(task)
    p = X.shape[1]
    n = 10 if task.tiny else 60
    ridge, model = fit_with_choice(n, X, y, candidates="products")
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
            "data": task.data,
            "candidates": p * (p - 1) // 2,
            "ridge": ridge,
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
    X, y, Xt, yt = uci(task)
    n = 20 if task.tiny else 100
    ridge, model = fit_with_choice(n, X, y, candidates="stumps")
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
        row = {
            "data": task.data,
            "ridge": ridge,
            "stumps": n_stumps,
            "test error, %": 100 * here[-1],
        }
        if other:
            near = [e for k, e in other.items() if k <= n_stumps]
            row["boosting's, %"] = 100 * near[-1] if near else None
        rows.append(row)
    return rows
