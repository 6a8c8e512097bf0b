"""Rows at risk of sparse rows: those of the same rows dense, sparse."""

import numpy as np
import pytest
import zarr
from scipy import sparse

import streamlearn as sl
from streamlearn.data.risk.steps import Intervals
from streamlearn.data.risk.store import rows_at_risk
from streamlearn.data.source import Csr
from streamlearn.errors import SourceError
from streamlearn.testing.rows import read_whole
from streamlearn.testing.stores import LAWS

CUTS = [0.5, 1.0, 2.5, 4.0]
DURATION, TARGET = "x3", "y"


def subjects(n=300, p=12, kind=np.float32, seed=0):
    """Rows of which a fifth of the values is not 0, their durations in column 3, and events."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, p)) < 0.2, rng.normal(size=(n, p)), 0).astype(kind)
    X[:, 3] = rng.choice([0.0, 0.25, 0.5, 1.0, 1.7, 2.5, 3.0, 4.0, 9.0], n)
    return X, (rng.integers(0, 2, n) * (X[:, 3] > 0)).astype(np.int8)


def in_memory(X, y, folder):
    return sl.open_dataset(sparse.csr_array(np.c_[X, y]), target=f"x{X.shape[1]}")


def on_disk(X, y, folder):
    group = zarr.create_group(str(folder / "rows.zarr"))
    csr, rows = sparse.csr_array(X), group.create_group("X")
    rows.attrs.update({"encoding-type": "csr_matrix", "shape": list(X.shape)})
    for name in ("data", "indices", "indptr"):
        rows.create_array(name, data=getattr(csr, name), chunks=(64,))
    group.create_array("y", data=y, chunks=(64,))
    return sl.open_dataset(folder / "rows.zarr")


def dense(X, y):
    return sl.open_dataset(np.c_[X, y].astype(X.dtype), target=f"x{X.shape[1]}")


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("given", [in_memory, on_disk])
@pytest.mark.parametrize("slice_rows", [1, 3, 37, 10**6])
def test_they_are_those_of_dense_rows(tmp_path, given, slice_rows, kind):
    X, y = subjects(kind=kind)
    rows = given(X, y, tmp_path).at_risk(DURATION, CUTS).with_slice_rows(slice_rows)
    want = dense(X, y).at_risk(DURATION, CUTS)
    assert rows.sparse
    assert rows.feature_names == want.feature_names
    for names in (rows.feature_names, ["interval", "x5", "exposure", "x0"], ["exposure"]):
        got, hoped = read_whole(rows.select(names)), read_whole(want.select(names))
        assert isinstance(got.X, Csr)
        np.testing.assert_array_equal(got.X.dense(), hoped.X)
        np.testing.assert_array_equal(got.y, hoped.y)
        np.testing.assert_array_equal(got.numbers, hoped.numbers)
    assert max(chunk.n_rows for chunk in rows.iter_chunks()) <= slice_rows


@pytest.mark.parametrize("law", [law for law in LAWS if law.__name__ != "check_split"])
@pytest.mark.parametrize("given", [in_memory, on_disk])
def test_laws_of_every_store(tmp_path, law, given):
    """Rows that nothing ends are as many as their numbers, as the laws would have it."""
    X, y = subjects(603)
    data = given(X, y, tmp_path).select(["x0", "x4", "x5"])
    rows = rows_at_risk(data, Intervals(CUTS[:3], "interval", "exposure"))
    law(rows, read_whole(rows))


def test_hazards_are_those_of_dense_rows():
    """No penalty on what centring moves: the two have one optimum, which each comes near."""
    X, y = subjects(2000, 6)
    new, curves = X[:20], []
    for rows, shown in ((dense(X, y), np.asarray), (in_memory(X, y, None), sparse.csr_array)):
        alone = {"n_bases": 4, "C": 1e4, "interactions": 0}  # of sparse rows there are no pairs
        model = sl.AdditiveRegressor("poisson", exposure="exposure", tol=1e-9, **alone)
        model.fit(rows.at_risk(DURATION, CUTS))
        curves.append(sl.survival_curves(model, sl.open_dataset(shown(new)), CUTS))
    np.testing.assert_allclose(*curves, atol=1e-3)


def test_steps_of_ordered_classes_stay_sparse(tmp_path):
    X, _ = subjects()
    grade = np.digitize(X[:, 0], [-0.1, 0.1]).astype(np.int8)
    order = [2, 0, 1]
    got = read_whole(on_disk(X, grade, tmp_path).ordinal_steps(order).with_slice_rows(7))
    hoped = read_whole(dense(X, grade).ordinal_steps(order))
    np.testing.assert_array_equal(got.X.dense(), hoped.X)
    np.testing.assert_array_equal(got.y, hoped.y)


def _dense(X):
    return X.dense()


def test_a_map_that_makes_dense_rows_is_refused():
    X, y = subjects()
    data = in_memory(X, y, None).map(_dense)
    with pytest.raises(SourceError, match="made dense rows of sparse ones.*map the rows at risk"):
        read_whole(data.at_risk(DURATION, CUTS, event="x12"))
