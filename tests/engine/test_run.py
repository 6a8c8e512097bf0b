"""Reads through `Run`: same bits for any number of threads, order, retries, row state, cache."""

import os
from pathlib import Path
from threading import get_ident

import dask
import numpy as np
import pytest
from engine_kit import FailingRows, Rows, Shuffled, dense, gram_fold, sgd_fold

from streamlearn.config import config_context
from streamlearn.data.mapped import MappedSource
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import make_plan
from streamlearn.engine.run import Run
from streamlearn.engine.scratch.blocks import RowForm, ScratchSource
from streamlearn.engine.scratch.in_memory import InMemoryRows
from streamlearn.errors import ScratchError, SourceError
from streamlearn.passes.fold import Fold, both, read_all, run_fold


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("streamlearn.engine.lanes.FIRST_WAIT_S", 0.0)


def open_run(source, threads=2, **options):
    plan = make_plan(source, [Needs("read", 1000)], budget=1 << 30, threads=threads)
    return Run(source, plan, name="test", identity={"n": 1}, **options)


def rows_of(run, name, n_rows):
    """A row state as an array."""
    return np.fromfile(run.row_state(name).read_path).reshape(n_rows, -1)


@pytest.mark.parametrize("threads", [2, 4])
def test_bits_do_not_depend_on_threads(threads):
    source = Rows(3000)
    results = []
    for n in (1, threads):
        with dask.config.set(num_workers=n), open_run(source, n) as run:
            assert run.plan.lanes_in_flight == n
            results.append(run.fold(gram_fold(3), name="gram"))
    one, many = results
    assert one["n"] == many["n"] == 3000
    np.testing.assert_array_equal(one["gram"], many["gram"])


def test_synchronous_scheduler_runs_in_the_calling_thread():
    source = Rows()
    with open_run(source) as run:
        threaded = run.fold(gram_fold(3), name="gram")
    with config_context(scheduler="synchronous"), open_run(source) as run:
        inline = run.fold(gram_fold(3), name="gram")
    np.testing.assert_array_equal(threaded["gram"], inline["gram"])


def test_a_table_of_one_chunk_is_read_in_the_calling_thread():
    source = Rows(100, slice_rows=100)
    threads = Fold(list, lambda state, chunk: [*state, get_ident()], _concatenate)
    with open_run(source) as run:
        assert run.plan.lanes_in_flight == 1
        assert run.fold(threads, name="threads") == [get_ident()]


def test_states_merge_in_lane_order():
    source = Rows(1000, slice_rows=10)
    names = Fold(list, _append_rows, _concatenate)
    with dask.config.set(num_workers=4), open_run(source, 4) as run:
        assert run.fold(names, name="rows") == list(range(1000))


def _append_rows(state, chunk):
    return [*state, *chunk.rows]


def _concatenate(a, b):
    return a + b


def test_a_fold_without_merge_sees_the_rows_in_order():
    source, fold = Rows(500), sgd_fold(np.zeros(3))
    with open_run(source, 4) as run:
        streamed = run.fold(fold, name="sgd")
    np.testing.assert_array_equal(streamed, run_fold(fold, read_all(source)))


def test_counters():
    with open_run(Rows(500)) as run:
        run.fold(gram_fold(3), name="a")
        run.fold(both(gram_fold(3), gram_fold(3)), name="b")
        assert (run.n_passes, run.rows_read, run.bytes_read) == (2, 1000, 2 * 500 * 24)
        assert run.seconds > 0
        assert run.peak_memory_bytes > 1 << 20


def test_io_errors_are_tried_again_and_change_nothing(tmp_path):
    flaky = FailingRows(folder=str(tmp_path), at=(64, 320), times=1)
    with open_run(flaky) as run:
        result = run.fold(gram_fold(3), name="gram")
    with open_run(Rows()) as run:
        np.testing.assert_array_equal(result["gram"], run.fold(gram_fold(3), name="gram")["gram"])
    assert (tmp_path / "64.log").read_text() == "xx"


@pytest.mark.parametrize(
    "error, seen, n_reads", [(OSError, SourceError, 3), (ValueError, ValueError, 1)]
)
def test_an_error_that_stays_is_raised_with_its_place(tmp_path, error, seen, n_reads):
    broken = FailingRows(folder=str(tmp_path), at=(64,), times=99, error=error)
    with open_run(broken) as run, pytest.raises(seen, match="rows 64 to 96") as raised:
        run.fold(gram_fold(3), name="gram")
    assert "in read 'test-gram', rows 64 to 96" in raised.value.__notes__
    assert (tmp_path / "64.log").stat().st_size == n_reads


@pytest.mark.parametrize("options", [{}, {"columns": False}, {"sparse": True}, {"skip": 3}])
def test_a_sweep_visits_the_rows_of_each_group_in_the_drawn_order(options):
    source, order = Rows(700, **options), Shuffled(size=3)
    X, y = dense(source.all().X), source.all().y
    numbers = np.asarray(source.all().rows)
    if options.get("skip"):
        X = np.array([row for i, row in enumerate(Rows(700).all().X) if i % 3])
        y = np.array([v for i, v in enumerate(Rows(700).all().y) if i % 3])
    w, refs = np.zeros(3), source.refs()
    for g, group in enumerate(order.groups(refs, 5)):
        at = np.concatenate(
            [
                np.flatnonzero((numbers >= refs[i].start) & (numbers < refs[i].stop))
                for i in sorted(group)
            ]
        )
        at = at[order.permutation(len(at), 5, g)]
        for i in at:
            x = X[i].astype(np.float64)
            w += 0.1 * (y[i] - x @ w) * x
    with open_run(MappedSource(source, _with_right_target)) as run:
        swept = run.sweep(sgd_fold(np.zeros(3)), None, order, pass_index=5, name="sgd")
    np.testing.assert_array_equal(swept, w)


def _with_right_target(chunk):
    """The chunk's targets follow a selection."""
    chunk.y = np.cos(np.asarray(chunk.rows, dtype=np.float64))
    return chunk


def _add_to_rows(n, chunk):
    chunk.state["seen"] += np.asarray(chunk.rows, dtype=np.float64)[:, None] + 1
    return n + chunk.n_rows


def _sum(a, b):
    return a + b


def _counting_rows():
    from streamlearn.passes.fold import RowState

    return Fold(int, _add_to_rows, _sum, rows=(RowState("seen", "float64", 2),))


@pytest.mark.parametrize("skip", [0, 2])
def test_row_state_goes_from_generation_to_generation(skip):
    source = Rows(500, skip=skip)
    with open_run(source) as run:
        for _ in range(3):
            run.fold(_counting_rows(), name="count")
        expected = 3.0 * np.arange(1, 501)
        if skip:
            expected[::skip] = 0
        np.testing.assert_array_equal(rows_of(run, "seen", 500), np.c_[expected, expected])
        folder = Path(run.row_state("seen").read_path).parent
        assert len(list(folder.glob("rows-*"))) == 1
    assert not folder.exists()


def test_row_state_survives_a_retried_read_in_a_sweep(tmp_path):
    results = []
    for source in (Rows(), FailingRows(folder=str(tmp_path), at=(96, 640), times=2)):
        with open_run(source) as run:
            w = np.zeros(3)
            for t in range(2):
                fold = sgd_fold(w, row_state="sum")
                w = run.sweep(fold, None, Shuffled(), pass_index=t, name="sgd")
            results.append((w, rows_of(run, "sum", 1000)))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_a_row_state_keeps_its_shape():
    with open_run(Rows()) as run:
        run.fold(_counting_rows(), name="count")
        other = sgd_fold(np.zeros(3), row_state="seen")
        with pytest.raises(ValueError, match="is 2 x float64 a row, a fold asks for 1 x float64"):
            run.fold(other, name="sgd")


def _double(chunk):
    chunk.X = chunk.X * 2
    return chunk


def _same(chunk):
    return chunk


@pytest.mark.parametrize("layout", ["columns", "rows"])
@pytest.mark.parametrize("skip", [0, 3])
@pytest.mark.parametrize("in_memory", [False, True])
def test_cached_rows_are_what_was_converted(layout, skip, in_memory):
    source = Rows(500, skip=skip)
    with open_run(source) as run:
        scratch, also = run.cache(
            None,
            RowForm(_double, 3, "float32", layout),
            also=gram_fold(3),
            in_memory=in_memory,
            name="s",
        )
        assert scratch.refs() == source.refs()
        again = run.fold(gram_fold(3), scratch, name="gram")
        np.testing.assert_array_equal(again["gram"], also["gram"])
        with scratch.reader() as reader, source.reader() as original:
            for ref in (*source.refs()[3:], source.refs()[0]):
                got, expected = reader.read(ref), original.read(ref)
                np.testing.assert_array_equal(got.X, expected.X * 2)
                np.testing.assert_array_equal(got.y, expected.y)
                np.testing.assert_array_equal(np.asarray(got.rows), np.asarray(expected.rows))
                assert got.X.flags.f_contiguous == (layout == "columns")
        assert run.bytes_read == 500 * 24 + (0 if in_memory else scratch.stored_nbytes)
        assert run.n_passes == 2
    assert in_memory or not Path(scratch.folder).exists()


class Named(Rows):
    feature_names = "a", "b", "c"


@pytest.mark.parametrize("in_memory", [False, True])
def test_rows_cached_as_they_are_read(in_memory):
    source = Named(300, skip=3)
    with open_run(source) as run:
        cached, nothing = run.cache(None, in_memory=in_memory, name="s")
        assert nothing is None
        for got, expected in zip(read_all(cached), read_all(source), strict=True):
            np.testing.assert_array_equal(got.X, expected.X)
            np.testing.assert_array_equal(got.y, expected.y)
            np.testing.assert_array_equal(np.asarray(got.rows), np.asarray(expected.rows))


@pytest.mark.parametrize("cached_bytes", [0, 8])
def test_rows_go_to_memory_where_the_plan_has_room(cached_bytes):
    source = Rows(300)
    plan = make_plan(source, [Needs("reads", 1000, cached_bytes_per_row=cached_bytes)])
    with Run(source, plan, name="fit", identity={}) as run:
        rows, _ = run.cache(None, RowForm(_double, 3, "float32"), name="s")
        assert isinstance(rows, InMemoryRows if cached_bytes else ScratchSource)


def test_a_form_is_held_to_its_columns():
    with open_run(Rows(300)) as run, pytest.raises(ValueError, match="expected .*, 4"):
        run.cache(None, RowForm(_double, 4, "float32"), in_memory=True, name="s")


@pytest.mark.parametrize("skip", [0, 3])
def test_a_sweep_over_cached_rows_knows_their_numbers(skip):
    """The reader of scratch uses its buffers again, for row numbers too."""
    source, order = Rows(700, skip=skip), Shuffled(size=3)
    visits = Fold(list, _note_visits, None)
    with open_run(source) as run:
        scratch, _ = run.cache(None, RowForm(_same, 3, "float32"), in_memory=False, name="s")
        cached = run.sweep(visits, scratch, order, pass_index=5, name="cached")
        direct = run.sweep(visits, None, order, pass_index=5, name="direct")
    assert cached == direct
    assert sorted(cached) == [i for i in range(700) if not skip or i % skip]


def _note_visits(state, chunk):
    return state + np.asarray(chunk.rows)[chunk.order].tolist()


def test_sparse_rows_and_string_targets_can_be_cached():
    source = Rows(200, sparse=True)
    with open_run(source) as run:
        scratch, _ = run.cache(None, RowForm(_named, 3, "float32"), in_memory=False, name="s")
        assert scratch.sparse
        chunk = next(iter(read_all(scratch)))
        np.testing.assert_array_equal(dense(chunk.X), dense(next(iter(read_all(source))).X))
        assert chunk.y[0] == "row 0"
        assert chunk.y[1] is None


def _named(chunk):
    chunk.y = np.array([None if i % 2 else f"row {i}" for i in chunk.rows], dtype=object)
    return chunk


def test_scratch_without_room_is_refused_before_the_read():
    source = Rows()
    with open_run(source) as run, pytest.raises(ScratchError, match="needs .* but has .* free"):
        run.cache(None, RowForm(_same, 1 << 50, "float32"), in_memory=False, name="s")


def test_scratch_can_be_forbidden():
    with config_context(scratch=False), open_run(Rows()) as run:
        with pytest.raises(ScratchError, match="scratch is False"):
            run.cache(None, RowForm(_same, 3, "float32"), in_memory=False, name="s")


def test_blas_is_held_to_one_thread_during_a_run():
    from threadpoolctl import threadpool_info

    def n_threads():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    with open_run(Rows()), open_run(Rows()):
        assert n_threads() == {1}


def test_progress_is_drawn_only_when_asked(capsys):
    for shown in (False, True):
        with open_run(Rows(), progress=shown) as run:
            for name in ("gram", "gram", "last"):
                run.fold(gram_fold(3), name=name)
        told = capsys.readouterr().err
        assert ("test-gram, read 2" in told) == shown
        assert ("test-last, read 3" in told) == shown
        assert told.count("\n") == shown  # one bar, however many reads


def test_an_empty_source_gives_the_identity():
    with open_run(Rows(0)) as run:
        assert run.fold(gram_fold(3), name="gram")["n"] == 0
        w = run.sweep(sgd_fold(np.ones(3)), None, Shuffled(), pass_index=0, name="sgd")
        np.testing.assert_array_equal(w, np.ones(3))


def test_scratch_goes_when_the_fit_is_interrupted():
    run = open_run(Rows())
    folders = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(run, folders)
    assert not os.path.exists(folders[0])


def interrupted(run, folders):
    with run:
        run.fold(_counting_rows(), name="count")
        folders.append(os.path.dirname(run.row_state("seen").read_path))
        raise KeyboardInterrupt


def test_a_run_can_be_replanned():
    source = Rows(1000)
    with open_run(source, 4) as run:
        first = run.fold(gram_fold(3), name="a")
        run.replan(make_plan(source, [Needs("read", 1000)], budget=1 << 30, threads=1))
        assert run.plan.lanes_in_flight == 1
        again = run.fold(gram_fold(3), name="b")
        finer = make_plan(source.with_slice_rows(16), [Needs("read", 1)], budget=1 << 30, threads=1)
        run.replan(finer)
        assert run.source.slice_rows == 16
    np.testing.assert_array_equal(first["gram"], again["gram"])
