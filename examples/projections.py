"""Projection pursuit finds the sum that counts among 20 columns of noise; boosting does too."""

import numpy as np

import streamlearn as sl

rng = np.random.default_rng(0)
X = rng.standard_normal((4000, 20)).astype(np.float32)
s = (X[:, 3] + X[:, 11]) / np.sqrt(2)
z = s**2 + 0.1 * rng.standard_normal(4000)
train, test = slice(0, 3000), slice(3000, None)

model = sl.ProjectionPursuitRegressor(n_terms=2, tau=[10, 100]).fit(X[train], z[train])
print(f"R2 {model.score(X[test], z[test]):.3f}")
direction = np.abs(model.directions_[0])
print("columns of the first direction:", np.flatnonzero(direction > 0.1 * direction.max()))
sl.PursuitDisplay.from_estimator(model, X[test])  # directions and curves; its figure_ can be saved

boosted = sl.JensenShannonBoostClassifier(n_learners=10).fit(X[train], z[train] > 0.5)
print(f"boosted, right on new rows: {boosted.score(X[test], z[test] > 0.5):.3f}")
