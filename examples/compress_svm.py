"""An SVC of hundreds of support vectors becomes a machine of ten prototypes."""

import numpy as np
from sklearn.svm import SVC

import streamlearn as sl

rng = np.random.default_rng(0)
X = rng.random((3000, 2))
y = (np.hypot(X[:, 0] - 0.5, X[:, 1] - 0.5) < 0.3) ^ (rng.random(3000) < 0.05)
train, test = slice(0, 2000), slice(2000, None)

svm = SVC(gamma=4.0).fit(X[train], y[train])
print(f"SVC, {svm.n_support_.sum()} support vectors: {svm.score(X[test], y[test]):.3f}")
small = sl.compress(svm, X[train], 10)  # needs no labels
print(f"compressed to {len(small.prototypes_)}: {small.score(X[test], y[test]):.3f}")
sl.PrototypeDisplay.plane(small, X[test], y[test])  # where the prototypes (stars) have moved
