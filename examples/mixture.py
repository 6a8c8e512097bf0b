"""A mixture of linear SVMs: a chessboard that no linear and no additive model can learn."""

import numpy as np

import streamlearn as sl

rng = np.random.default_rng(0)
X = rng.random((6000, 2), dtype=np.float32)
y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
train, test = slice(0, 4000), slice(4000, None)

additive = sl.AdditiveClassifier().fit(X[train], y[train])
print(f"additive: {additive.score(X[test], y[test]):.3f}")

model = sl.SVMMixtureClassifier(4, gate="linear", expert_loss="log_loss", random_state=0)
model.fit(X[train], y[train])
print(f"mixture of {model.n_components_}: {model.score(X[test], y[test]):.3f}")
print("share of rows of each:", np.round(model.weights_, 2), model.n_passes_, "reads")

# a map: each component's region and the border of the classes; its figure_ can be saved
sl.MixtureDisplay.from_estimator(model, X[test][:300], y[test][:300])
