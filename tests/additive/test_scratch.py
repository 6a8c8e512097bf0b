"""A copy in scratch changes where later reads go, and nothing else."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamlearn as sl
from streamlearn.additive.costs import sizes


@pytest.mark.parametrize("smoothness", [{"C": 1.0}, {"smoothness": "reml"}], ids=["C", "reml"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_newton_through_scratch_gives_the_same_bits_in_as_many_reads(
    tmp_path, monkeypatch, loss, smoothness
):
    monkeypatch.setattr(sizes, "SAMPLE_ROWS", 1_000)
    monkeypatch.setattr(sizes, "SAMPLE_NBYTES", 1_000)
    rng = np.random.default_rng(0)
    X = rng.random((12_000, 3), dtype=np.float32)
    X[:, 1] = np.floor(5 * X[:, 1])
    y = (np.sin(6 * X[:, 0]) + 0.3 * X[:, 1] + rng.normal(0, 0.5, len(X)) > 0.8).astype(np.int8)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=1_500)
    data = sl.open_dataset(tmp_path / "rows.parquet", target="y")

    def fit(scratch):
        with sl.config_context(scratch=scratch):
            return sl.AdditiveClassifier(loss=loss, n_bases=6, tol=1e-6, **smoothness).fit(data)

    place = tmp_path / "scratch"
    direct, copied = fit(False), fit(place)
    assert direct.n_passes_ > 3
    assert copied.n_passes_ == direct.n_passes_
    np.testing.assert_array_equal(copied.coef_, direct.coef_)
    np.testing.assert_array_equal(copied.intercept_, direct.intercept_)
    assert copied.plan_.disk_bytes > 0
    assert list(place.iterdir()) == []  # removed at the end
