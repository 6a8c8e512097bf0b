"""Sharing, products, stumps and pieces: `ShareBoostClassifier` beside its rivals, in memory."""

import warnings
from pathlib import Path

import numpy as np

from bench.shareboost.choice import choose_copies, choose_look
from bench.shareboost.fits import Task, boost, error_path, least_n
from bench.shareboost.pieces import choose_pieces, pieces
from bench.shareboost.uci import products, stumps


def prepare(**options):
    import streamlearn

    streamlearn.warm("shareboost")


def run(report, *, what, shared, threads, **task):
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        report["rows"] = PARTS[what](Task(Path(shared), **task))


# Fig. 2: columns needed against classes, shared or chosen for each class by itself.


def sharing(task):
    from bench.shareboost import patches

    if task.tiny:
        from bench.shareboost.digits import images

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


PARTS = {
    "sharing": sharing,
    "products": products,
    "stumps": stumps,
    "pieces": pieces,
    "choose_look": choose_look,
    "choose_copies": choose_copies,
    "choose_pieces": choose_pieces,
}
