"""Regression: one read for the summary and one for the exact optimum."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score

import streamlearn as sl


def main():
    rng = np.random.default_rng(0)
    X = rng.random((5_000, 4))
    y = np.sin(6 * X[:, 0]) + (X[:, 1] - 0.5) ** 2 + rng.normal(0, 0.1, len(X))
    model = sl.AdditiveRegressor(n_bases=12, interactions=0).fit(X, y)  # pairs take more reads
    print(f"curves: R2 {model.score(X, y):.3f} after {model.n_passes_} passes")
    print(f"a straight line: R2 {LinearRegression().fit(X, y).score(X, y):.3f}")

    X, y = load_diabetes(return_X_y=True)
    scores = cross_val_score(sl.AdditiveRegressor(n_bases=6, C=0.01), X, y)
    print(f"diabetes: cross-validated R2 {scores.mean():.3f}")


if __name__ == "__main__":
    main()
