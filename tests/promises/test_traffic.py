"""Only references and states travel: bytes counted on the lines to the scheduler."""

from functools import partial

import dask.array as da
import numpy as np
import pyarrow.parquet as pq
import pytest
from engine_kit import Rows
from promises.cluster_kit import Cluster
from promises.jobs import write_rows
from promises.orders import LONGEST_S
from store_kit import BadLine

import streamlearn as sl
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import make_plan
from streamlearn.engine.run import Run
from streamlearn.passes.fold import Fold

pytestmark = pytest.mark.slow
MIB = 1 << 20


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """A client, its line to the scheduler, and the workers' line to the scheduler."""
    from distributed import Client

    with Cluster(tmp_path_factory.mktemp("cluster"), 0) as cluster:
        port = int(cluster.address.rpartition(":")[2])
        with BadLine(port) as near, BadLine(port) as far:
            cluster.address = f"tcp://127.0.0.1:{far.port}"
            cluster.n_wanted = 2
            with Client(f"tcp://127.0.0.1:{near.port}", timeout=LONGEST_S) as client:
                client.wait_for_workers(2, timeout=LONGEST_S)
                yield client, near, far


def add_rows(model, n, chunk):
    return n + chunk.n_rows * int(model[0])


def test_a_model_goes_once_a_pass_and_lanes_are_references(lines):
    client, near, far = lines
    model = np.ones(4 * MIB // 8)
    source = Rows(4_000)
    plan = make_plan(source, [Needs("read", 8, model_bytes=model.nbytes)], budget=1 << 30)
    n_passes = 3
    with Run(source, plan, name="traffic", identity={}) as run:
        assert run.plan.n_lanes == 16
        before = near.n_bytes, far.n_bytes
        for t in range(n_passes):
            fold = Fold(int, partial(add_rows, model), add)
            assert run.fold(fold, name=f"pass-{t}") == 4_000
    up, down = near.n_bytes - before[0], far.n_bytes - before[1]
    # once to the scheduler, once on to a worker; the other worker has it from that one
    assert n_passes * model.nbytes < up < n_passes * (model.nbytes + MIB // 2)
    assert n_passes * model.nbytes < down < n_passes * (model.nbytes + MIB // 2)


def add(a, b):
    return a + b


def test_no_rows_go_through_the_scheduler(lines, tmp_path):
    """The sample and the columns' counts do, once a fit: as many for four times the rows."""
    _, near, far = lines
    moved, decoded = [], []
    for n_rows in (60_000, 240_000):
        path = write_rows(tmp_path / f"{n_rows}.parquet", n_rows, 10, row_group=n_rows // 20)
        data = sl.open_dataset(path, target="y")
        before = near.n_bytes + far.n_bytes
        # the search for pairs has states of its own, and may find other pairs in more rows
        model = sl.AdditiveClassifier(n_bases=8, tol=1e-3, interactions=0).fit(data)
        model.predict_to(data, tmp_path / f"scores {n_rows}", "probability")
        moved.append(near.n_bytes + far.n_bytes - before)
        decoded.append(data.decoded_nbytes)
        assert pq.read_table(tmp_path / f"scores {n_rows}").num_rows == n_rows
    assert moved[1] - moved[0] < (decoded[1] - decoded[0]) / 20


def test_a_persisted_collection_is_used_where_it_lies(lines, tmp_path):
    client, near, far = lines
    X = da.random.default_rng(0).random((400_000, 5), chunks=(50_000, 5)).astype("float32")
    X = client.persist(X)
    client.gather(client.compute(X.sum()))
    y = (X[:, 0] > 0.5).astype("int8")
    before = near.n_bytes + far.n_bytes
    model = sl.AdditiveClassifier(n_bases=6, tol=1e-2, interactions=0).fit(X, y)
    model.predict_to(X, tmp_path / "scores.parquet")
    answers = client.persist(model.predict(X))
    accuracy = float(client.gather(client.compute((answers == y).mean())))
    moved = near.n_bytes + far.n_bytes - before
    assert accuracy > 0.95
    assert X.nbytes > 7 * MIB
    assert moved < 4 * MIB
    parts = sorted(path.name for path in (tmp_path / "scores.parquet").glob("part-*"))
    assert len(parts) == 8  # each partition's task wrote its own
    table = pq.read_table(tmp_path / "scores.parquet")
    np.testing.assert_array_equal(table["prediction"].to_numpy(), answers.compute())
