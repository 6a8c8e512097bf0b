"""Parquet, zarr, checkpoints, models and predictions on S3: a server process, a bad line to it."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from store_kit import BadLine, check_keys, file_system, options, serving

import streamlearn as sl
from streamlearn.engine.watch.status import read_status
from streamlearn.errors import CheckpointError, SourceError

pytestmark = pytest.mark.slow
N, P, GROUP = 2_000, 3, 500


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.random((N, P), dtype=np.float32)
    return X, (X[:, 0] + 0.3 * rng.standard_normal(N) > 0.5).astype(np.int64)


@pytest.fixture(scope="module")
def port(rows):
    """A server whose bucket holds the rows as ``t/a.parquet``, ``t/b.parquet`` and ``t.zarr``."""
    X, y = rows
    with serving() as port:
        fs = file_system(port)
        for name, half in (("a", slice(0, N // 2)), ("b", slice(N // 2, N))):
            columns = {f"x{j}": X[half, j] for j in range(P)}
            with fs.open(f"bucket/t/{name}.parquet", "wb") as file:
                pq.write_table(pa.table({**columns, "y": y[half]}), file, row_group_size=GROUP)
        group = zarr.open_group("s3://bucket/t.zarr", mode="w", storage_options=options(port))
        group.create_array("X", data=X, chunks=(GROUP, P))
        group.create_array("y", data=y, chunks=(GROUP,))
        yield port


def open_parquet(port, **keys):
    return sl.open_dataset(
        "s3://bucket/t/*.parquet", target="y", storage_options=options(port, **keys), chunk_rows=250
    )


def open_zarr(port, **keys):
    return sl.open_dataset("s3://bucket/t.zarr", storage_options=options(port, **keys))


def model():
    return sl.AdditiveClassifier(n_bases=6, tol=1e-3)


@pytest.fixture(scope="module")
def fitted(port):
    return model().fit(open_parquet(port))


@pytest.mark.parametrize("opened", [open_parquet, open_zarr])
def test_rows_are_those_of_the_store_and_no_copy_is_made(port, rows, opened, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    X, y = rows
    dataset = opened(port)
    assert dataset.n_rows == N
    chunks = [(chunk.X.copy(), chunk.y.copy()) for chunk in dataset.iter_chunks()]
    np.testing.assert_array_equal(np.concatenate([c for c, _ in chunks]), X)
    np.testing.assert_array_equal(np.concatenate([c for _, c in chunks]), y)
    with sl.config_context(scratch=False):
        model().fit(dataset)
    assert not list(tmp_path.iterdir())


def test_checkpoint_model_and_predictions_lie_there_too(port, fitted):
    fs, dataset = file_system(port), open_parquet(port)
    with sl.config_context(storage_options=options(port)):
        assert (model().fit(dataset, checkpoint="s3://bucket/run").coef_ == fitted.coef_).all()
        again = model().fit(dataset, checkpoint="s3://bucket/run")
        assert (again.coef_ == fitted.coef_).all()
        assert read_status("s3://bucket/run").state == "finished"
        sl.save(fitted, "s3://bucket/m.slm")
        assert (sl.load("s3://bucket/m.slm").coef_ == fitted.coef_).all()
        expected = fitted.predict_proba(dataset)
        for path in ("s3://bucket/p.parquet", "s3://bucket/p.zarr"):
            for overwrite in (False, True):
                fitted.predict_to(dataset, path, "probability", overwrite=overwrite)
            with pytest.raises(FileExistsError, match="overwrite=True"):
                fitted.predict_to(dataset, path)
    kept = [path for path in fs.find("bucket/run") if "manifest" not in path]
    assert len(kept) == 1  # the result; what a finished fit no longer needs is gone
    table = pq.read_table("bucket/p.parquet", filesystem=fs, columns=["probability_1"])
    np.testing.assert_array_equal(table["probability_1"].to_numpy(), expected[:, 1])
    stored = zarr.open_group("s3://bucket/p.zarr", mode="r", storage_options=options(port))
    np.testing.assert_array_equal(stored["probability_1"][:], expected[:, 1])
    assert fs.exists("bucket/p.parquet/_SUCCESS")
    assert not [path for path in fs.find("bucket") if ".writing-" in path]


def test_a_fit_killed_in_a_read_goes_on_from_the_store(port, fitted, monkeypatch):
    from streamlearn.engine import lanes

    read, seen = lanes.RetryingReader.read, []

    def stop(self, ref):
        seen.append(ref)
        if len(seen) == 11:
            raise KeyboardInterrupt
        return read(self, ref)

    with sl.config_context(storage_options=options(port), scheduler="synchronous"):
        monkeypatch.setattr(lanes.RetryingReader, "read", stop)
        with pytest.raises(KeyboardInterrupt):
            model().fit(open_parquet(port), checkpoint="s3://bucket/stopped")
        assert read_status("s3://bucket/stopped").n_passes == 1
        resumed = model().fit(open_parquet(port), checkpoint="s3://bucket/stopped")
    assert (resumed.coef_ == fitted.coef_).all()


ABSENT = {
    "parquet": lambda m, d: sl.open_dataset("s3://bucket/none.parquet"),
    "glob": lambda m, d: sl.open_dataset("s3://bucket/none/*.parquet"),
    "zarr": lambda m, d: sl.open_dataset("s3://bucket/none.zarr"),
    "bucket": lambda m, d: sl.open_dataset("s3://nobody/a.parquet"),
    "model": lambda m, d: sl.load("s3://bucket/none.slm"),
    "save": lambda m, d: sl.save(m, "s3://nobody/m.slm"),
    "checkpoint": lambda m, d: model().fit(d, checkpoint="s3://nobody/run"),
    "status": lambda m, d: read_status("s3://bucket/none"),
}


@pytest.mark.parametrize("what", ABSENT)
def test_missing_keys_and_buckets_are_named(port, fitted, what):
    wanted = (SourceError, FileNotFoundError, CheckpointError)
    with (
        sl.config_context(storage_options=options(port)),
        pytest.raises(wanted, match=r"s3://(bucket/none|nobody)|bucket/none\.slm"),
    ):
        ABSENT[what](fitted, open_parquet(port))


REFUSED = {
    "parquet": lambda m, d, wrong: open_parquet(**wrong),
    "zarr": lambda m, d, wrong: open_zarr(**wrong),
    "load": lambda m, d, wrong: sl.load("s3://bucket/m.slm"),
    "save": lambda m, d, wrong: sl.save(m, "s3://bucket/refused.slm"),
    "checkpoint": lambda m, d, wrong: model().fit(d, checkpoint="s3://bucket/refused"),
    "predict_to": lambda m, d, wrong: m.predict_to(d, "s3://bucket/refused"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_keys_are_refused_by_name(port, fitted, rows, what):
    wrong = {"port": port, "key": "wrong", "secret": "wrong"}
    arrays = sl.open_dataset(rows[0]) if what == "predict_to" else open_parquet(port)
    if what == "checkpoint":
        arrays = sl.open_dataset(pa.table({"x0": rows[0][:, 0], "y": rows[1]}), target="y")
    check_keys(port, True)
    try:
        with (
            sl.config_context(storage_options=options(**wrong)),
            pytest.raises((SourceError, CheckpointError, OSError), match=r"bucket/\S"),
        ):
            REFUSED[what](fitted, arrays, wrong)
    finally:
        check_keys(port, False)
    assert not file_system(port).exists("bucket/refused")
    assert not file_system(port).exists("bucket/refused.slm")


@pytest.mark.parametrize("opened", [open_parquet, open_zarr])
def test_a_slow_line_changes_nothing(port, fitted, opened):
    quiet = model().fit(opened(port))
    with BadLine(port, piece=4096) as line:
        line.pause_s = 0.002
        assert (model().fit(opened(line.port)).coef_ == quiet.coef_).all()


@pytest.mark.fault
@pytest.mark.parametrize("opened", [open_parquet, open_zarr])
def test_dropped_connections_are_tried_again(port, opened):
    quiet = model().fit(opened(port))
    with BadLine(port) as line:
        dataset = opened(line.port)
        line.drops = 3
        assert (model().fit(dataset).coef_ == quiet.coef_).all()
        assert line.n_dropped == 3


@pytest.mark.fault
@pytest.mark.parametrize(
    "opened, place",
    [(open_parquet, r"[ab]\.parquet, row group \d"), (open_zarr, r"t\.zarr, array /")],
)
def test_a_line_that_stays_dead_is_one_error_and_the_checkpoint_stays(
    port, opened, place, tmp_path
):
    quiet = model().fit(opened(port))
    checkpoint = str(tmp_path / "run")
    with BadLine(port) as line:
        dataset = opened(line.port)
        with sl.config_context(max_seconds=1e-9), pytest.raises(sl.TimeLimitError):
            model().fit(dataset, checkpoint=checkpoint)
        line.drops = -1
        with pytest.raises(SourceError, match=place):
            model().fit(dataset, checkpoint=checkpoint)
    assert os.path.exists(tmp_path / "run" / "manifest.json")
    assert (model().fit(opened(port), checkpoint=checkpoint).coef_ == quiet.coef_).all()
