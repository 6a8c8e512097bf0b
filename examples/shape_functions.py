"""What the model has learned: one curve a column, saved as a picture."""

import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from sklearn.datasets import load_breast_cancer

import streamlearn as sl


def main(folder):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = sl.AdditiveClassifier(n_bases=8, C=0.1).fit(X.iloc[:, :6], y)
    display = sl.AdditiveDisplay.from_estimator(model)
    path = folder / "shapes.png"
    display.figure_.savefig(path)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
