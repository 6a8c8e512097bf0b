"""A zarr store as input and predictions as a zarr store; nothing is converted."""

import tempfile
from pathlib import Path

import numpy as np
import zarr

import streamlearn as sl


def main(folder):
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 10), dtype=np.float32)
    y = (X[:, 0] * 2 + np.cos(5 * X[:, 1]) > rng.normal(1, 0.3, len(X))).astype(np.int8)
    group = zarr.create_group(str(folder / "train.zarr"))
    group.create_array("X", data=X, chunks=(4_096, 10))
    group.create_array("y", data=y, chunks=(4_096,))

    data = sl.open_dataset(folder / "train.zarr")  # X, y and weight are found by name
    print(data)
    model = sl.AdditiveClassifier(loss="squared_hinge").fit(data)
    print(f"accuracy {model.score(data):.3f}, gap {model.certificate_.relative_gap:.1e}")

    model.predict_to(data, folder / "scores.zarr", what="decision")
    print(sorted(path.name for path in (folder / "scores.zarr").iterdir()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
