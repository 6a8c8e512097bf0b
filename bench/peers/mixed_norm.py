"""The convex rival (eq. 5): L(W) + lambda |W|_{inf,1} on products, by proximal gradient."""

import numpy as np


def path_of(X, y, Xt, yt, *, pairs=None, n_lambdas=12, iterations=150):
    """Columns that are not 0 -> test error, for a run of lambdas with warm starts.

    `pairs` (i, j) of columns that are multiplied: all, if not given.
    """
    i, j = np.triu_indices(X.shape[1], 1) if pairs is None else pairs
    make = Products(X, i, j)
    classes, codes = np.unique(y, return_inverse=True)
    K, n = len(classes), len(y)
    hot = np.eye(K)[codes]
    margin = 1.0 - hot

    def gradient(W, b):
        Z = margin + make.scores(W) + b
        Z -= Z.max(axis=1, keepdims=True)
        P = np.exp(Z)
        P /= P.sum(axis=1, keepdims=True)
        R = (P - hot) / n
        return make.back(R), R.sum(axis=0)

    W, b = np.zeros((K, len(i))), np.zeros(K)
    G, _ = gradient(W, b)
    top = np.abs(G).sum(axis=0).max()
    step = 2.0 / max(make.norm2() / n, 1.0)
    test = Products(Xt, i, j)
    found = {}
    for lam in top * np.geomspace(0.7, 0.02, n_lambdas):
        V, vb, t = W.copy(), b.copy(), 1.0
        for _ in range(iterations):
            G, g = gradient(V, vb)
            new = shrink(V - step * G, step * lam)
            new_b = vb - step * g
            t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
            V = new + (t - 1) / t_next * (new - W)
            vb = new_b + (t - 1) / t_next * (new_b - b)
            W, b, t = new, new_b, t_next
        n_columns = int((np.abs(W).max(axis=0) > 0).sum())
        found[n_columns] = float(np.mean(classes[(test.scores(W) + b).argmax(axis=1)] != yt))
        if n_columns > 200:
            break
    return found


class Products:
    """Products of pairs of columns, multiplied by without being kept when they are many."""

    def __init__(self, X, i, j, block=20_000):
        self.X, self.i, self.j, self.block = X, i, j, block

    def parts(self):
        for a in range(0, len(self.i), self.block):
            cut = slice(a, a + self.block)
            yield cut, self.X[:, self.i[cut]] * self.X[:, self.j[cut]]

    def scores(self, W):
        """Only columns of W that are not 0."""
        used = np.flatnonzero(np.abs(W).max(axis=0))
        return (self.X[:, self.i[used]] * self.X[:, self.j[used]]) @ W[:, used].T

    def back(self, R):
        return np.concatenate([R.T @ A for _, A in self.parts()], axis=1)

    def norm2(self):
        """Largest eigenvalue of A A', by a few power steps."""
        v = np.ones((len(self.X), 1))
        for _ in range(8):
            w = sum(A @ (A.T @ v) for _, A in self.parts())
            size = np.linalg.norm(w)
            v = w / size
        return size


def shrink(W, t):
    """Proximal step of t |.|_inf for each column: what is left outside the l1 ball of radius t."""
    A = np.sort(np.abs(W), axis=0)[::-1]
    total = np.cumsum(A, axis=0)
    k = np.arange(1, len(W) + 1)[:, None]
    size = (A * k > total - t).sum(axis=0)
    level = (np.take_along_axis(total, size[None] - 1, 0)[0] - t) / size
    inside = total[-1] <= t
    return np.where(inside, 0.0, np.clip(W, -np.maximum(level, 0), np.maximum(level, 0)))
