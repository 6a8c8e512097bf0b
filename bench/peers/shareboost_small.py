"""Sharing, products, stumps and pieces: `ShareBoostClassifier` beside its rivals, in memory."""

import warnings
from pathlib import Path

import numpy as np


def prepare(**options):
    import streamlearn

    streamlearn.warm()


def run(report, *, what, shared, tiny, rivals, threads):
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        report["rows"] = PARTS[what](Path(shared), tiny, rivals)


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


def sharing(shared, tiny, rivals):
    from bench import patches

    if tiny:
        from bench.shareboost_digits import images

        X, y = images(shared, "train", True)
        counts, n_templates, goal, most = (2, 4), 20, 0.2, 10
    else:
        table = np.load(shared / "char74k" / "english_digits_upper_32.npz")
        X, y = table["images"][table["good"]], table["target"][table["good"]]
        counts, n_templates, goal, most = (2, 5, 10, 20, 36), 200, 0.2, 160
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    train = np.arange(len(y)) < 0.7 * len(y)
    learned = patches.learn(X[train], n_templates, seed=0)
    V = patches.responses(learned, X)
    rows = []
    for K in counts:
        chosen = y < K
        a, b = chosen & train, chosen & ~train
        model = boost(min(most, V.shape[1]), ridge=1e-5).fit(V[a], y[a])
        ours = least_n(error_path(model, V[b], y[b]), goal)
        row = {"classes": K, "columns for 20 % error": ours}
        if rivals:
            rest = one_vs_rest(V[a], y[a], V[b], y[b], K, goal, most)
            row |= {"one-vs-rest's": rest, "ratio": ours / rest if ours and rest else None}
        rows.append(row)
    return rows


def one_vs_rest(X, y, Xt, yt, K, goal, most):
    """Distinct columns of K binary models, each with as many of its own, at the goal."""
    models = [boost(most, ridge=1e-5).fit(X, (y == k).astype(int)) for k in range(K)]
    for n in range(1, most + 1):
        at = [model.at(n) for model in models]
        scores = np.column_stack([model.decision_function(Xt) for model in at])
        if np.mean(scores.argmax(axis=1) != yt) <= goal:
            return len({choice for model in at for choice in model.choices_})
    return None


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


def products(shared, tiny, rivals):
    rows = []
    for name, X, y, Xt, yt in uci(shared, tiny):
        p = X.shape[1]
        n = 10 if tiny else 60
        model = boost(n, candidates="products", ridge=1e-5).fit(X, y)
        path = error_path(model, Xt, yt)
        mixed = {}
        if rivals:
            from bench.peers.mixed_norm import path_of

            mixed = path_of(X, y, Xt, yt, n_lambdas=4 if tiny else 12)
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


def stumps(shared, tiny, rivals):
    rows = []
    for name, X, y, Xt, yt in uci(shared, tiny):
        n = 20 if tiny else 100
        model = boost(n, candidates="stumps", ridge=1e-5).fit(X, y)
        path = error_path(model, Xt, yt)
        other = {}
        if rivals:
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


def pieces(shared, tiny, rivals):
    from bench.shareboost_digits import images

    X, y = images(shared, "train", tiny)
    Xt, yt = images(shared, "test", tiny)
    X, Xt = (part.reshape(len(part), -1).astype(np.float32) / 255 for part in (X, Xt))
    q = 10 if tiny else 50
    mean = X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((X - mean).T))
    axes = vectors[:, -q:].astype(np.float32)
    V, Vt = (X - mean) @ axes, (Xt - mean) @ axes
    how = {"n_anchors": 20, "n_radii": 5} if tiny else {"n_anchors": 1500, "n_radii": 35}
    n = 6 if tiny else 230
    model = boost(n, candidates="pieces", ridge=1e-5, **how).fit(V, y)
    svm = None
    if rivals:
        from sklearn.svm import SVC

        svm = SVC(C=10, gamma=0.025, cache_size=1000).fit(V, y)
    rows = []
    for size in [k for k in (10, 25, 50, 100, 150, 200) if k < n] + [n]:
        at = model.at(size)
        row = {"pieces": len(at.choices_), "test error, %": 100 * (1 - at.score(Vt, yt))}
        rows.append(row | {"anchors": len({a for a, _ in at.choices_})})
    if svm is not None:
        rows.append({"test error, %": 100 * (1 - svm.score(Vt, yt)), "pieces": "RBF SVM",
                     "anchors": len(svm.support_)})  # fmt: skip
    return rows


PARTS = {"sharing": sharing, "products": products, "stumps": stumps, "pieces": pieces}
