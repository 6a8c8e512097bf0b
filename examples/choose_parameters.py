"""Cross-validation of data on disk: folds by a hash of the row number, scored in shared reads."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_breast_cancer

import streamlearn as sl


def main(folder):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    names = [name.replace(" ", "_") for name in X.columns]
    table = pa.table([*X.to_numpy().T.copy(), y.to_numpy()], names=[*names, "benign"])
    pq.write_table(table, folder / "cancer.parquet")

    data = sl.open_dataset(folder / "cancer.parquet", target="benign")
    model = sl.AdditiveClassifier(n_bases=8)
    result = sl.cross_validate(model, data, cv=5, param_grid={"C": [0.01, 0.1, 1.0]})
    print(result)

    train, test = data.split(0.75, seed=0)
    model.set_params(C=0.1).fit(train)
    print(f"accuracy on rows it has not seen: {model.score(test):.3f}")
    assert model.score(test) > np.mean(y)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
