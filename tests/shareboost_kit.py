"""Small tables and reference answers of the ShareBoost tests."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from streamlearn.data.memory.opening import open_arrays
from streamlearn.data.open import dataset_of


def planted(n=600, d=30, K=4, seed=0, columns=(2, 7, 19), spread=1.5):
    """(X, y) with |x| <= 1 whose classes depend on a few columns, all of them on each."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    W = np.zeros((K, d))
    W[:, list(columns)] = spread * rng.standard_normal((K, len(columns)))
    return X, (X @ W.T + 0.5 * rng.gumbel(size=(n, K))).argmax(axis=1), W


def loss_of(X, y, W, b, weight=None):
    """Eq. 3, the plain way."""
    Z = X @ np.asarray(W).T + b
    own = Z[np.arange(len(y)), y]
    margin = (np.arange(Z.shape[1]) != y[:, None]).astype(float)
    losses = logsumexp(margin - own[:, None] + Z, axis=1)
    return np.average(losses, weights=weight)


def optimum(X, y, K, penalty=lambda W: 0.0):
    """(value, W, b) at the least of loss (3) and a penalty, by scipy, to rounding."""
    n, d = X.shape
    margin = (np.arange(K) != y[:, None]).astype(float)
    hot = 1.0 - margin

    def value(theta):
        theta = theta.reshape(K, d + 1)
        Z = X @ theta[:, 1:].T + theta[:, 0]
        scores = margin + Z
        top = logsumexp(scores, axis=1)
        R = (np.exp(scores - top[:, None]) - hot) / n
        smooth, slope = penalty(theta[:, 1:])
        g = np.column_stack([R.sum(axis=0), R.T @ X + slope])
        return (top - (Z * hot).sum(axis=1)).mean() + smooth, g.ravel()

    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-10}
    found = minimize(value, np.zeros(K * (d + 1)), jac=True, method="L-BFGS-B", options=options)
    theta = found.x.reshape(K, d + 1)
    return found.fun, theta[:, 1:], theta[:, 0]


def as_dataset(X, y, weight=None, rows=None):
    store = open_arrays(X, y, weight)
    names = [c.name for c in store.columns if c.name not in ("y", "sample_weight")]
    given = None if weight is None else "sample_weight"
    return dataset_of(store, "y", given, names, chunk_rows=rows)
