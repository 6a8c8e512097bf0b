"""Splits that share their reads, against a fit and a score of each by hand.

The walk: every estimator that predicts, over every kind of source.
"""

import warnings

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from laws.subjects import QUICK, names, rows_of
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

import streamlearn as sl
from streamlearn.estimator.scores.cross_validate import without_split
from streamlearn.solvers.splits import split_shares

N, CV = 300, 3


def estimators():
    """The public names that `cross_validate` takes."""
    return [name for name in names() if hasattr(getattr(sl, name), "predict")]


def table(classifies):
    X = np.random.default_rng(0).standard_normal((N, 5))
    f = X[:, 0] * X[:, 1] + X[:, 2]
    return X, (f > 0).astype(int) if classifies else f


def in_memory(X, y, _folder):
    return rows_of(X, y, None, chunk_rows=64)


def parquet(X, y, folder):
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    pq.write_table(pa.table({**columns, "y": y}), folder / "t.parquet", row_group_size=64)
    return sl.open_dataset(folder / "t.parquet", target="y", chunk_rows=64)


def zarr(X, y, folder):
    parquet(X, y, folder).to_zarr(folder / "t.zarr")
    return sl.open_dataset(folder / "t.zarr", chunk_rows=64)


def csr(X, y, _folder):
    return rows_of(sparse.csr_array(np.where(X > 0.3, X, 0.0)), y, None, chunk_rows=64)


def dask(X, y, _folder):
    parts = da.from_array(X, chunks=(64, X.shape[1])), da.from_array(y, chunks=64)
    return parts


APART = {"ShareBoostClassifier": 4, "ShareBoostClassifierCV": 40}
"""Estimator -> reads, at most, of columns that only one split selects."""
KINDS = {kind.__name__: kind for kind in (in_memory, parquet, zarr, csr, dask)}


@pytest.fixture(autouse=True)
def short_fits():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def by_hand(model, rows, seed=0):
    """Scores, and reads, of a fit and a score of each split on its own."""
    edges, seed = split_shares(CV, seed, around_choice=hasattr(model, "cv"))
    scores, reads = [], []
    for split in range(CV):
        train, apart = without_split(rows, edges, split, seed)
        fitted = type(model)(**model.get_params()).fit(train)
        scores.append(fitted.score(apart))
        reads.append(fitted.n_passes_)
    return scores, reads


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", estimators())
def test_scores_are_those_of_splits_by_hand_in_the_reads_of_one(name, kind, tmp_path):
    model = getattr(sl, name)().set_params(**QUICK[name])
    X, y = table(is_classifier(model))
    made = KINDS[kind](X, y, tmp_path)
    rows, target = made if isinstance(made, tuple) else (made, None)
    found = sl.cross_validate(model, rows, CV, y=target)
    if target is not None:  # in the memory of this process, as the rows of a collection become
        rows = rows_of(X, y, None)
    scores, reads = by_hand(model, rows)
    np.testing.assert_array_equal(found.scores, [scores])
    shares = kind not in ("in_memory", "csr")  # these are scored where they are
    assert found.n_score_passes == (1 if shares else CV)
    written = CV * (kind == "dask")  # to scratch, before all fits
    apart = (CV - 1) * APART.get(name, 0)
    if name.endswith("CV") and not shares:
        apart += (CV - 1) * model.cv  # the scores by which it chooses
    assert found.n_passes - found.n_score_passes <= max(reads) + written + apart
