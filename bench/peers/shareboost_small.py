"""Sharing, products, stumps and pieces: `ShareBoostClassifier` beside its rivals, in memory."""

import warnings
from pathlib import Path

import numpy as np

from bench.shareboost.blocks import blocks
from bench.shareboost.choice import choose_copies, choose_look
from bench.shareboost.fits import Task, boost, error_path, least_n
from bench.shareboost.pieces import choose_pieces, hard_pieces, pieces
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
        counts, n_templates, most = (2, 4), 20, 10
    else:
        table = np.load(task.shared / "char74k" / "english_digits_upper_32.npz")
        X, y = table["images"][table["good"]], table["target"][table["good"]]
        counts, n_templates, most = (2, 5, 10, 20, 36), min(task.n_templates, 200), 100
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
        row = {"classes": K, "least error, %": 100 * min(e for _, e in path)}
        rest, n_all = {}, 0
        if task.rivals:
            rest, n_all = one_vs_rest(V[a], y[a], V[b], y[b], K, 4 * most // 10)
        for goal in GOALS:
            ours = least_n(path, goal)
            row[f"columns for {goal:.0%} error"] = ours
            if task.rivals:
                row[f"one-vs-rest's for {goal:.0%}"] = rest.get(goal, f"> {n_all}")
                row[f"ratio for {goal:.0%}"] = ours / rest.get(goal, n_all) if ours else None
        rows.append(row)
    return rows


GOALS = (0.2, 0.08)
"""Test errors whose columns are counted, the paper's."""


CHARACTERS = {"spread": 4.5, "damp": 1.0, "either_sign": True}
"""Of `patches.learn`, for the letters; chosen with the ridge on a quarter of the training rows."""
LETTERS = {"ridge": 1e-4, "columns_per_pass": 1}


def one_vs_rest(X, y, Xt, yt, K, most):
    """Goal -> distinct columns of K binary models, each with as many of its own.

    A goal that `most` of each do not reach has none; and how many distinct ones all of them have.
    """
    models = [boost(most, **LETTERS).fit(X, (y == k).astype(int)) for k in range(K)]
    found, distinct = {}, 0
    for n in range(1, most + 1):
        at = [model.at(n) for model in models]
        scores = np.column_stack([model.decision_function(Xt) for model in at])
        distinct = len({choice for model in at for choice in model.choices_})
        error = np.mean(scores.argmax(axis=1) != yt)
        found = {goal: distinct for goal in GOALS if error <= goal} | found
        if len(found) == len(GOALS):
            break
    return found, distinct


PARTS = {
    "sharing": sharing,
    "products": products,
    "stumps": stumps,
    "pieces": pieces,
    "hard_pieces": hard_pieces,
    "blocks": blocks,
    "choose_look": choose_look,
    "choose_copies": choose_copies,
    "choose_pieces": choose_pieces,
}
