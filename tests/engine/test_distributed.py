"""The same reads on a dask cluster of processes: same bits, lost workers repaired."""

import os
from contextlib import contextmanager

import dask.array as da
import numpy as np
import pytest
from engine_kit import (
    FailingRows,
    Rows,
    Shuffled,
    assert_same,
    gram_fold,
    open_run,
    program,
    sgd_fold,
)

from streamlearn.config import config_context
from streamlearn.data.open import open_dataset
from streamlearn.engine.cluster import Cluster
from streamlearn.engine.executor import find_client
from streamlearn.engine.scratch.materialise import materialised
from streamlearn.errors import CheckpointError, ScratchError

pytestmark = pytest.mark.slow


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


@pytest.fixture(scope="module")
def expected():
    with config_context(scheduler="threads"), open_run(Rows(), None) as run:
        return program(run)


def test_the_active_client_is_found_and_threads_can_be_asked_for(client):
    assert find_client(None) is client
    assert find_client("threads") is None
    assert find_client(client) is client
    with pytest.raises(ValueError, match="scheduler='processes' is not known"):
        find_client("processes")


def test_every_kind_of_read_gives_the_bits_of_threads(client, expected):
    with open_run(Rows(), None) as run:
        assert run._engine.is_cluster
        assert_same(program(run), expected)
        assert run.peak_memory_bytes > 1 << 20


def test_a_fit_can_move_from_threads_to_a_cluster(client, expected, tmp_path):
    with config_context(scheduler="threads"), open_run(Rows(), tmp_path) as run:
        run.fold(gram_fold(3), name="summary")
    with open_run(Rows(), tmp_path) as run:
        assert_same(program(run), expected)


def test_io_errors_on_workers_are_tried_again(client, tmp_path):
    source = FailingRows(folder=str(tmp_path), at=(64, 640), times=2)
    with open_run(source, None) as run, open_run(Rows(), None) as other:
        assert_same(run.fold(gram_fold(3), name="a"), other.fold(gram_fold(3), name="a"))


def test_a_lost_worker_changes_nothing(client, tmp_path):
    source = FailingRows(folder=str(tmp_path), at=(512,), times=1, kill=True)
    with open_run(source, None) as run, open_run(Rows(), None) as other:
        assert_same(run.fold(gram_fold(3), name="a"), other.fold(gram_fold(3), name="a"))


def test_partitions_are_computed_on_the_workers(client):
    X = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    with materialised(open_dataset(da.from_array(X, chunks=(300, 3)))) as dataset:
        got = np.concatenate([chunk.X.copy() for chunk in dataset.iter_chunks()])
    np.testing.assert_array_equal(got, X)


def test_a_large_table_in_memory_goes_through_scratch(client, monkeypatch):
    monkeypatch.setattr("streamlearn.engine.scratch.materialise.SENT_NBYTES", 1000)
    X = np.random.default_rng(0).normal(size=(1000, 3))
    with materialised(open_dataset(X)) as dataset:
        assert not dataset.store.in_memory
        got = np.concatenate([chunk.X.copy() for chunk in dataset.iter_chunks()])
    np.testing.assert_array_equal(got, X)


def test_a_folder_that_workers_cannot_reach_is_refused_by_name(client, tmp_path, monkeypatch):
    folder = tmp_path / "mine alone"
    folder.mkdir()

    @contextmanager
    def elsewhere(folder, mark):
        yield

    monkeypatch.setattr("streamlearn.engine.cluster.probe_file", elsewhere)
    text = "must be shared by all workers of the cluster, but [12] of [12] cannot use it"
    with config_context(scratch=folder), open_run(Rows(), None) as run:
        with pytest.raises(ScratchError, match=text):
            run.sweep(sgd_fold(np.zeros(3), row_state="s"), None, Shuffled(), name="sweep")


def test_the_dashboard_tells_one_pass_from_another(client):
    from dask.utils import key_split

    future = Cluster(client, 1).submit("Model-newton-pass-3", int)
    assert key_split(future.key) == "Model_newton_pass_3"
    assert future.result() == 0


def test_what_is_shared_survives_the_worker_that_has_it(client):
    engine = Cluster(client, 1)
    future = engine.share({"w": np.arange(3)})
    assert engine.share(None) is None
    for address in client.scheduler_info(n_workers=-1)["workers"]:
        engine.result(future)
        client.restart_workers([address])
    np.testing.assert_array_equal(engine.result(future)["w"], np.arange(3))


def test_a_fit_inside_a_worker_is_refused_while_another_has_the_checkpoint(
    client, tmp_path, expected
):
    with config_context(scheduler="threads"):
        with open_run(Rows(), tmp_path) as run:
            run.fold(gram_fold(3), name="summary")
            refused = f"in use by another fit: host .+, process {os.getpid()}, since"
            with pytest.raises(CheckpointError, match=refused):
                client.submit(fit_in_worker, tmp_path, pure=False).result()
    assert_same(client.submit(fit_in_worker, tmp_path, pure=False).result(), expected)


def fit_in_worker(place):
    with config_context(scheduler="threads"), open_run(Rows(), place) as run:
        return program(run)
