"""Collections, streams and large tables become stores in scratch, with the same rows."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from engine_kit import gram_fold

from streamlearn.config import config_context
from streamlearn.data.open import open_dataset
from streamlearn.data.source import Csr
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import make_plan
from streamlearn.engine.run import Run
from streamlearn.engine.scratch.materialise import materialised
from streamlearn.errors import MemoryBudgetError, ScratchError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 4)).astype(np.float32)


def gram(dataset, **columns):
    plan = make_plan(dataset, [Needs("read", 1000)], budget=1 << 30, threads=2)
    with Run(dataset, plan, name="test", identity={}) as run:
        result = run.fold(gram_fold(dataset.n_features), name="gram")
        return result["gram"], run.n_passes


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_a_dask_array_is_computed_once(scheduler):
    computed = []

    def count(block):
        computed.append(len(block))
        return block

    source = da.from_array(X, chunks=(300, 2)).map_blocks(count, meta=X[:0])
    computed.clear()
    with config_context(scheduler=scheduler), materialised(open_dataset(source)) as dataset:
        assert dataset.n_rows == 1000
        assert dataset.store.boundaries().tolist() == [0, 300, 600, 900, 1000]
        for _ in range(2):
            result, n_passes = gram(dataset)
        assert n_passes == 2  # writing it was one
        whole = np.concatenate([chunk.X.copy() for chunk in dataset.iter_chunks()])
    assert sum(computed) == 2 * 1000  # two blocks of columns a row
    np.testing.assert_array_equal(whole, X)
    np.testing.assert_allclose(result, X.T.astype(float) @ X, rtol=1e-12)


def test_a_dataframe_with_unknown_lengths_and_string_targets():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["label"] = np.where(X[:, 0] > 0, "yes", "no")
    frame["w"] = 2.0
    source = dd.from_pandas(frame, npartitions=3)
    source = source[source.b > 0]
    kept = frame[frame.b > 0]
    dataset = open_dataset(source, target="label", weight="w", features=["c", "a"])
    with materialised(dataset) as dataset:
        assert dataset.n_rows == len(kept)
        chunks = [
            (chunk.X.copy(), chunk.y.copy(), chunk.weight.copy(), list(chunk.rows))
            for chunk in dataset.with_slice_rows(77).iter_chunks()
        ]
        columns = dataset.select(["a"])
        np.testing.assert_array_equal(
            np.concatenate([c.X[:, 0].copy() for c in columns.iter_chunks()]), kept.a
        )
        folder = dataset.store.folder
    rows, y, weight, numbers = (np.concatenate(part) for part in zip(*chunks, strict=True))
    np.testing.assert_array_equal(rows, kept[["c", "a"]])
    np.testing.assert_array_equal(y, kept.label.to_numpy(object))
    assert set(weight) == {2.0}
    np.testing.assert_array_equal(numbers, np.arange(len(kept)))
    import os

    assert not os.path.exists(folder)


def test_sparse_partitions():
    full = np.where(X > 0.5, X, 0)
    blocks = [dask.delayed(sp.csr_matrix)(full[i : i + 250]) for i in range(0, 1000, 250)]
    with materialised(open_dataset(blocks)) as dataset:
        assert dataset.sparse
        chunks = [chunk.X for chunk in dataset.with_slice_rows(90).iter_chunks()]
        assert all(isinstance(part, Csr) for part in chunks)
        rows = sp.vstack([sp.csr_matrix(part[:3], shape=part.shape) for part in chunks])
    np.testing.assert_array_equal(rows.toarray(), full)


def test_a_stream_is_written_once():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=100))
    with materialised(open_dataset(stream)) as dataset:
        for _ in range(2):
            got = np.concatenate([chunk.X.copy() for chunk in dataset.iter_chunks()])
            np.testing.assert_array_equal(got, X[:, :2])


def test_without_scratch_or_memory_it_is_refused_by_name():
    dataset = open_dataset(da.from_array(X, chunks=(500, 4)))
    with config_context(scratch=False), pytest.raises(ScratchError, match="scratch is False"):
        with materialised(dataset):
            pass
    with config_context(memory_budget=1000), pytest.raises(MemoryBudgetError, match="a partition"):
        with materialised(dataset):
            pass


def test_what_can_be_read_again_stays_as_it_is():
    dataset = open_dataset(X)
    with materialised(dataset) as same:
        assert same is dataset
