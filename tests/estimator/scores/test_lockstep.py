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


@pytest.mark.turns(4, 0)
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
    written = kind == "dask"  # to scratch, before all fits
    apart = (CV - 1) * APART.get(name, 0)
    if name.endswith("CV") and not shares:
        apart += (CV - 1) * model.cv  # the scores by which it chooses
    assert found.n_passes - found.n_score_passes <= max(reads) + written + apart


def test_rows_at_risk_are_made_of_the_subjects_of_a_split_alone(tmp_path):
    X, _ = table(False)
    time = np.random.default_rng(1).uniform(0, 3, N)
    parquet(np.column_stack([X, time]), (time < 2.5).astype(int), tmp_path)
    given = sl.open_dataset(tmp_path / "t.parquet", target="y", chunk_rows=64)
    rows = given.at_risk("x5", [1.0, 2.0, 3.0])
    model = sl.AdditiveRegressor("poisson", exposure="exposure", C=1.0, n_bases=4)
    found = sl.cross_validate(model, rows, CV)
    scores, reads = by_hand(model, rows)
    np.testing.assert_array_equal(found.scores, [scores])
    assert found.n_passes - found.n_score_passes == sum(reads)  # nothing is made of the others


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("name", ["AdditiveClassifier", "JensenShannonBoostClassifier"])
def test_threads_and_workers_give_the_same(name, tmp_path, client):
    """With folds that only sum, and with row state."""
    model = getattr(sl, name)().set_params(**QUICK[name])
    rows = parquet(*table(is_classifier(model)), tmp_path)
    found = []
    for scheduler in ("synchronous", "threads", client):
        with sl.config_context(scheduler=scheduler, scratch=tmp_path):
            found.append(sl.cross_validate(model, rows, CV))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].scores, other.scores)
        assert found[0].n_passes == other.n_passes


def test_a_budget_that_holds_less_shares_less_with_the_same_scores(tmp_path):
    X, y = table(True)
    X = np.hstack([X] * 40) + np.random.default_rng(1).normal(0, 1, (N, 200))
    rows, model = parquet(X, y, tmp_path), sl.AdditiveClassifier(n_bases=8, solver="newton")
    with pytest.raises(sl.MemoryBudgetError, match="budget is 1.0 MiB") as refused:
        sl.plan(model, rows, memory_budget="1MiB")
    found = []
    for budget in (refused.value.enough, refused.value.enough + 35, 2048):
        with sl.config_context(memory_budget=f"{budget}MiB", scheduler="synchronous"):
            found.append(sl.cross_validate(model, rows, CV))
    np.testing.assert_array_equal(found[0].scores, found[1].scores)
    np.testing.assert_array_equal(found[1].scores, found[2].scores)
    assert found[0].n_passes > found[1].n_passes > found[2].n_passes


@pytest.mark.parametrize("name", ["JensenShannonBoostClassifierCV", "SVMMixtureClassifierCV"])
def test_a_choice_that_was_killed_goes_on_to_the_same(name, tmp_path, monkeypatch):
    """In every third of the reads that its splits share, the last of its chunks stops it."""
    from streamlearn.engine.together import lockstep

    with sl.config_context(scheduler="threads"):  # not the cluster of another test
        model = getattr(sl, name)().set_params(**QUICK[name])
        X, y = table(True)
        whole = getattr(sl, name)().set_params(**QUICK[name]).fit(parquet(X, y, tmp_path))
        rows, read, n_reads, n_killed = parquet(X, y, tmp_path), lockstep.read_together, 0, 0

        def stopped(reads, at_once):
            nonlocal n_reads
            n_reads += 1
            if n_reads % 3 == 0:
                raise KeyboardInterrupt
            return read(reads, at_once)

        monkeypatch.setattr(lockstep, "read_together", stopped)
        for _ in range(200):
            try:
                model.fit(rows, checkpoint=tmp_path / "run")
                break
            except KeyboardInterrupt:
                n_killed += 1
        assert n_killed > 1
        assert (model.best_params_, model.best_score_) == (whole.best_params_, whole.best_score_)
        np.testing.assert_array_equal(model.decision_function(rows), whole.decision_function(rows))
        assert model.n_passes_ == whole.n_passes_
        again = model.fit(rows, checkpoint=tmp_path / "run")
        assert again.n_passes_ == whole.n_passes_
        assert sl.plan(model, rows).peak_bytes >= whole.plan_.peak_bytes


def test_what_a_split_lacks_is_said_of_the_first_that_lacks_it(tmp_path):
    """Row 0 alone is of its class: the fit without it has one class less."""
    X, y = table(True)
    y = np.zeros(N, int)
    y[7] = 1
    rows = parquet(X, y, tmp_path)
    edges, seed = split_shares(CV, 0)
    split = [
        len(without_split(rows, edges, k, seed)[0].where_hash(0, 1, 0).summary().target.classes)
        for k in range(CV)
    ].index(1)
    with pytest.raises(ValueError, match="1 class .0., a classifier needs at least 2") as alone:
        sl.AdditiveClassifier().fit(without_split(rows, edges, split, seed)[0])
    with pytest.raises(ValueError, match="1 class .0., a classifier needs at least 2") as found:
        sl.cross_validate(sl.AdditiveClassifier(), rows, CV)
    lack, _, _ = str(alone.value).partition("; ")
    assert str(found.value).startswith(f"split {split + 1} of cv={CV}: ")
    assert lack in str(found.value)
