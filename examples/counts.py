"""Counts with exposure: claims of policies that ran for different times."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamlearn as sl


def main(folder):
    rng = np.random.default_rng(0)
    age, years = rng.uniform(18, 80, 20_000), rng.uniform(0.1, 1, 20_000)
    rate = 0.2 + 0.4 * np.exp(-(age - 18) / 8)  # claims a year
    claims = rng.poisson(rate * years)
    table = pa.table({"age": age, "years": years, "claims": claims})
    pq.write_table(table, folder / "claims.parquet", row_group_size=5000)

    data = sl.open_dataset(folder / "claims.parquet", target="claims")
    model = sl.AdditiveRegressor(loss="poisson", exposure="years").fit(data)
    for at in (20, 30, 60):
        found = model.predict(pa.table({"age": [at], "years": [1.0]}))[0]  # of one year
        print(f"age {at}: {found:.3f} claims a year, true {0.2 + 0.4 * np.exp(-(at - 18) / 8):.3f}")
    sl.AdditiveDisplay.from_estimator(model)  # its figure_ can be saved


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
