"""Promise 5: bad input is named (what, where, what to do), and nothing half-written is left.

Every test goes through the public surface, as a user would; stores have their own tests too.
"""

import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import streamlearn as sl
from streamlearn.errors import CheckpointError, MemoryBudgetError, SourceError, StreamlearnError

N, P = 600, 3


def frame(n=N, seed=0, **replace):
    rng = np.random.default_rng(seed)
    columns = {f"x{j}": rng.random(n, dtype=np.float32) for j in range(P)}
    columns["y"] = (columns["x0"] + 0.3 * rng.standard_normal(n) > 0.5).astype(np.int64)
    return columns | replace


def write(path, columns, row_group_size=200):
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return str(path)


def model(**parameters):
    return sl.AdditiveClassifier(**({"n_bases": 6} | parameters))


def fit(path, **parameters):
    return model(**parameters).fit(sl.open_dataset(path, target="y"))


def test_no_such_path(tmp_path):
    with pytest.raises((SourceError, FileNotFoundError), match="nowhere.parquet"):
        fit(str(tmp_path / "nowhere.parquet"))


def test_empty_folder(tmp_path):
    with pytest.raises(SourceError, match="no file ending in .parquet.* under"):
        sl.open_dataset(str(tmp_path), target="y")


def test_dataset_without_rows(tmp_path):
    path = write(tmp_path / "a.parquet", {k: v[:0] for k, v in frame().items()})
    with pytest.raises(SourceError, match=r"no rows in .*a\.parquet"):
        fit(path)


def test_missing_target_column(tmp_path):
    path = write(tmp_path / "a.parquet", frame())
    with pytest.raises(SourceError, match="label.*x0"):
        sl.open_dataset(path, target="label")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_named_by_column(tmp_path, value):
    columns = frame()
    columns["x1"][450] = value
    path = write(tmp_path / "a.parquet", columns)
    with pytest.raises(ValueError, match=r"column 'x1' holds .* row 450 \(a\.parquet"):
        fit(path, missing="error")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_target_that_is_not_finite(tmp_path, value):
    y = frame()["x0"].astype(np.float64)
    y[77] = value
    path = write(tmp_path / "a.parquet", frame(y=y))
    with pytest.raises(ValueError, match=r"the target 'y' holds .* row 77 \(a\.parquet"):
        sl.AdditiveRegressor(n_bases=6).fit(sl.open_dataset(path, target="y"))


def test_lists_are_no_features(tmp_path):
    path = write(tmp_path / "a.parquet", frame(x1=pa.array([[1.0]] * N)))
    with pytest.raises(SourceError, match="'x1' .nested.*one column for each of its values"):
        fit(path)


def test_text_is_no_category(tmp_path):
    path = write(tmp_path / "a.parquet", frame(x1=["word " * 300] * N))
    with pytest.raises(SourceError, match="'x1' holds a string of 1,500 characters.*features="):
        fit(path)


@pytest.mark.parametrize(
    ("later", "said"),
    [
        ({"x1": np.ones(N)}, "'x1' holds no strings, but categories"),
        ({"x0": ["a"] * N}, "'x0' holds strings, but numbers"),
        ({"x2": np.full(N, np.nan)}, "NaN in column 'x2', row 0, a column that had no missing"),
    ],
)
def test_columns_that_have_changed_since_the_training(tmp_path, later, said):
    words = {"x1": np.array(["a", "b"])[np.arange(N) % 2]}
    trained = fit(write(tmp_path / "a.parquet", frame(**words)))
    with pytest.raises(ValueError, match=said):
        trained.predict(write(tmp_path / "b.parquet", frame(**(words | later))))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"basis": "cosine", "penalty_order": 0}, "penalty_order=0 is not one of.*has 1 or 2"),
        ({"basis": "hermite", "degree": 2}, "degree=2 is the degree of splines.*bspline"),
    ],
)
def test_bases_without_the_splines_options(tmp_path, parameters, said):
    with pytest.raises(ValueError, match=said):
        fit(write(tmp_path / "a.parquet", frame()), **parameters)


def test_nested_column(tmp_path):
    path = write(tmp_path / "a.parquet", frame(x1=[[1.0, 2.0]] * N))
    with pytest.raises(SourceError, match=r"'x1' \(nested\); leave them out"):
        fit(path)


def test_files_with_different_schemas(tmp_path):
    write(tmp_path / "a.parquet", frame())
    columns = frame()
    columns["z"] = columns.pop("x2")
    write(tmp_path / "b.parquet", columns)
    with pytest.raises(SourceError, match=r"x2.*b\.parquet"):
        sl.open_dataset(str(tmp_path), target="y")


def test_zarr_arrays_of_different_length(tmp_path):
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("X", data=np.zeros((50, 2), np.float32))
    group.create_array("y", data=np.zeros(49, np.int64))
    with pytest.raises(SourceError, match="X has 50 rows but 'y' has 49"):
        sl.open_dataset(str(tmp_path / "a.zarr"), target="y")


def test_truncated_parquet_file_is_named(tmp_path):
    path = write(tmp_path / "a.parquet", frame())
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)
    with pytest.raises(SourceError, match=r"a\.parquet"):
        fit(path)


def test_damaged_row_group_is_named_and_the_checkpoint_stays(tmp_path):
    path = write(tmp_path / "a.parquet", frame(n=20_000), row_group_size=1_000)
    offset = pq.ParquetFile(path).metadata.row_group(15).column(0).data_page_offset
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * 64)
    with pytest.raises(SourceError, match=r"a\.parquet.*row group"):
        sl.AdditiveClassifier().fit(
            sl.open_dataset(path, target="y", chunk_rows=1_000), checkpoint=str(tmp_path / "run")
        )
    assert any((tmp_path / "run").iterdir())


def test_damaged_zarr_chunk_is_named(tmp_path):
    columns = frame()
    X = np.stack([columns[f"x{j}"] for j in range(P)], axis=1)
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("X", data=X, chunks=(100, P))
    group.create_array("y", data=columns["y"], chunks=(100,))
    chunk = tmp_path / "a.zarr" / "X" / "c" / "3" / "0"
    chunk.write_bytes(b"\x00" * 10)
    with pytest.raises(SourceError, match=r"a\.zarr, array /X, chunk \(3, 0\), rows 300 to 400"):
        model().fit(sl.open_dataset(str(tmp_path / "a.zarr"), target="y"))


def test_one_class_only(tmp_path):
    path = write(tmp_path / "a.parquet", frame(y=np.ones(N, np.int64)))
    with pytest.raises(ValueError, match=r"'y' holds 1 class \(1\), .* at least 2 classes"):
        fit(path)


@pytest.mark.parametrize("solver", ["newton", "dual-cd"])
def test_constant_columns_and_one_class_chunks_are_legal(tmp_path, solver):
    columns = frame(x1=np.full(N, 7.0, np.float32))
    order = np.argsort(columns["y"], kind="stable")
    path = write(tmp_path / "a.parquet", {k: v[order] for k, v in columns.items()})
    fitted = fit(path, solver=solver)
    assert fitted.score(sl.open_dataset(path, target="y")) > 0.7


def test_empty_files_among_others_are_legal(tmp_path):
    write(tmp_path / "a.parquet", {k: v[:0] for k, v in frame().items()})
    write(tmp_path / "b.parquet", frame())
    write(tmp_path / "c.parquet", {k: v[:0] for k, v in frame().items()})
    assert sl.open_dataset(str(tmp_path), target="y").n_rows == N
    fit(str(tmp_path))


def test_duplicate_column_names(tmp_path):
    table = pa.table([pa.array([1.0, 2.0])] * 2 + [pa.array([0, 1])], names=["x0", "x0", "y"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet has several columns named x0"):
        sl.open_dataset(str(tmp_path / "a.parquet"), target="y")


def test_predicting_with_other_columns(tmp_path):
    path = write(tmp_path / "a.parquet", frame())
    fitted = fit(path)
    columns = frame()
    reordered = write(tmp_path / "b.parquet", dict(reversed(columns.items())))
    np.testing.assert_array_equal(
        fitted.predict(sl.open_dataset(path)), fitted.predict(sl.open_dataset(reordered))
    )
    columns["z"] = columns.pop("x1")
    renamed = write(tmp_path / "c.parquet", columns)
    with pytest.raises(ValueError, match="lacks 1 of the 3 columns .* 'x1'; it has others"):
        fitted.predict(sl.open_dataset(renamed))


def test_budget_too_small_says_what_would_fit(tmp_path):
    path = write(tmp_path / "a.parquet", frame())
    data = sl.open_dataset(path, target="y")
    said = r"the budget is 1\.0 KiB; raise memory_budget to [\d.]+ MiB"
    with sl.config_context(memory_budget="1KiB"), pytest.raises(MemoryBudgetError, match=said):
        model().fit(data)


def test_scratch_without_permission(tmp_path):
    if os.geteuid() == 0:
        scratch = tmp_path / "file"
        scratch.write_text("a file where a folder is expected")
    else:
        scratch = tmp_path / "closed"
        scratch.mkdir(mode=stat.S_IRUSR)
    path = write(tmp_path / "a.parquet", frame())
    said = r"cannot write .* to scratch folder .*; pass a folder with room"
    with sl.config_context(scratch=str(scratch / "s")), pytest.raises(OSError, match=said):
        fit(path, solver="dual-cd", loss="hinge")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("data", r"another fit: .*data\.n_rows: 600 then, 601 now"),
        ("parameters", r"another fit: parameters\.C: 1\.0 then, 2\.0 now"),
    ],
)
def test_resume_against_something_else_is_refused(tmp_path, change, said):
    path = write(tmp_path / "a.parquet", frame())
    model(C=1.0).fit(sl.open_dataset(path, target="y"), checkpoint=str(tmp_path / "run"))
    if change == "data":
        write(path, frame(n=N + 1))
    with pytest.raises(CheckpointError, match=said):
        model(C=2.0 if change == "parameters" else 1.0).fit(
            sl.open_dataset(path, target="y"), checkpoint=str(tmp_path / "run")
        )


def test_predictions_leave_nothing_half_written(tmp_path):
    path = write(tmp_path / "a.parquet", frame(n=20_000), row_group_size=1_000)
    fitted = fit(path)
    offset = pq.ParquetFile(path).metadata.row_group(15).column(0).data_page_offset
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * 64)
    with pytest.raises(SourceError, match=r"a\.parquet, row group 15"):
        fitted.predict_to(sl.open_dataset(path), str(tmp_path / "scores.parquet"))
    assert not (tmp_path / "scores.parquet").exists()


def test_existing_predictions_are_refused(tmp_path):
    path = write(tmp_path / "a.parquet", frame())
    fitted = fit(path)
    fitted.predict_to(sl.open_dataset(path), str(tmp_path / "scores.parquet"))
    with pytest.raises((StreamlearnError, FileExistsError), match="overwrite"):
        fitted.predict_to(sl.open_dataset(path), str(tmp_path / "scores.parquet"))
