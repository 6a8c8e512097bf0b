"""Fig. 4 of the paper, with soft pieces: 50 principal components of MNIST, against an RBF SVM."""

import numpy as np

from .digits import images
from .fits import boost

RIDGE = 1.5
"""By the number of rows: the loss is their mean."""
SVM = {"C": 10, "gamma": 0.04}
"""Both chosen on training images alone, as `choose_pieces` does, of 6,000 and of 10,000 rows."""
RIDGES = (0.15, 0.6, 1.5, 6.0)
SVMS = [{"C": C, "gamma": gamma} for C in (3, 10, 30) for gamma in (0.025, 0.04, 0.06)]
TRIED_ROWS = 6_000
"""In the choice; as many more are held out."""


def components(X, n):
    """What takes images to their first n principal components."""
    X = X.reshape(len(X), -1).astype(np.float32) / 255
    mean = X.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov((X - mean).T))
    axes = vectors[:, -n:].astype(np.float32)
    return lambda Z: (Z.reshape(len(Z), -1).astype(np.float32) / 255 - mean) @ axes


def settings(task, kind="soft-pieces"):
    """Parameters besides the ridge: anchors and radii as many as the paper's, 16 pieces a read."""
    size = {"n_anchors": 20, "n_radii": 5} if task.tiny else {"n_anchors": 1500, "n_radii": 35}
    return {"candidates": kind, "columns_per_pass": 16, **size}


def hard_pieces(task):
    """The paper's own pieces, whose scores jump at their edges."""
    return pieces(task, "pieces")


def pieces(task, kind="soft-pieces"):
    X, y = images(task.shared, "train", task.tiny)
    Xt, yt = images(task.shared, "test", task.tiny)
    if task.n_rows:
        order = np.random.default_rng(0).permutation(len(y))[: task.n_rows]
        X, y = X[order], y[order]
    project = components(X, 10 if task.tiny else 50)
    V, Vt = project(X), project(Xt)
    n = 6 if task.tiny else 230
    model = boost(n, ridge=RIDGE / len(y), **settings(task, kind)).fit(V, y)
    rows = []
    for size in [k for k in (32, 64, 96, 128, 192) if k < n] + [n]:
        at = model.at(size)
        row = {"rows": len(y), "pieces": len(at.choices_)}
        row["anchors"] = len({a for a, _ in at.choices_})
        rows.append(row | {"test error, %": 100 * (1 - at.score(Vt, yt))})
    if task.rivals:
        from sklearn.svm import SVC

        svm = SVC(**SVM, cache_size=1000).fit(V, y)
        rows.append({"rows": len(y), "pieces": "RBF SVM", "anchors": len(svm.support_),
                     "test error, %": 100 * (1 - svm.score(Vt, yt))})  # fmt: skip
    return rows


def choose_pieces(task):
    """Errors on training images held out: ours by the ridge, the SVM's by C and gamma."""
    from sklearn.svm import SVC

    X, y = images(task.shared, "train", task.tiny)
    order = np.random.default_rng(6).permutation(len(y))
    n = task.n_rows or (500 if task.tiny else TRIED_ROWS)
    fit, out = order[:n], order[n : 2 * n]
    project = components(X[fit], 10 if task.tiny else 50)
    V, W = project(X[fit]), project(X[out])
    how = settings(task) | ({} if task.tiny else {"n_anchors": 500, "n_radii": 20})
    rows = []
    for ridge in RIDGES:
        model = boost(6 if task.tiny else 96, ridge=ridge / n, **how)
        model.fit(V, y[fit], validation=(W, y[out]))
        error = 100 * model.path_["validation_error"][-1]
        rows.append({"pieces of ridge x rows": ridge, "held-out error, %": error})
    for how in SVMS:
        error = 100 * (1 - SVC(**how, cache_size=500).fit(V, y[fit]).score(W, y[out]))
        rows.append({"SVM of": f"C={how['C']}, gamma={how['gamma']}", "held-out error, %": error})
    return rows
