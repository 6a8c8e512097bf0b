"""Fits that take turns: their order, errors, ends and memory, and reads against those alone."""

from functools import cache

import numpy as np
import pytest

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import make_plan
from streamlearn.engine.run import Run
from streamlearn.engine.together.costs import held_bytes, needs_together, together_bytes
from streamlearn.engine.together.lane_read import alike
from streamlearn.engine.together.lockstep import Lockstep, current_turn, n_served
from streamlearn.passes.fold import Fold, RowState
from streamlearn.passes.sums import add_sums

N, MIB = 2000, 1 << 20


@cache
def table():
    X = np.random.default_rng(0).standard_normal((N, 3)) * 10.0 ** np.arange(-3, 0)
    return sl.open_dataset(X, chunk_rows=70)


def parts(k=3):
    """The table without each of its k parts, which overlap."""
    edges = np.linspace(0, 1, k + 1)[1:]
    return [table().where_hash(0.0, float(edge), seed=1) for edge in edges]


def start():
    return {"gram": np.zeros((3, 3)), "margins": 0.0}


def step(state, chunk):
    state["gram"] += chunk.X.T @ chunk.X
    chunk.state["margin"] += chunk.X[:, :1] * 0.3
    state["margins"] += float(chunk.state["margin"].sum())
    return state


FOLD = Fold(start, step, add_sums, rows=(RowState("margin", "f8", 1),))


def open_run(source, need=None, name="fit", **options):
    plan = make_plan(source, [need or Needs("read", 1000)], budget=1 << 30, threads=2)
    return Run(source, plan, name=name, identity={"n": 1}, **options)


def fit(source, n_reads=3, log=None, **options):
    """The results of some reads, and how many of them others served."""
    with open_run(source, **options) as run:
        found = [run.fold(FOLD, name=f"read-{k}") for k in range(n_reads)]
        margins = np.fromfile(run.row_state("margin").read_path)
        if log is not None:
            log.append((run.n_passes, run.n_served, run.rows_read))
        return found, margins


def same(a, b):
    for one, other in zip(a[0], b[0], strict=True):
        np.testing.assert_array_equal(one["gram"], other["gram"])
        assert one["margins"] == other["margins"]
    np.testing.assert_array_equal(a[1], b[1])


def test_reads_are_shared_with_the_bits_of_reads_alone():
    alone, log = [fit(part, 2 + k) for k, part in enumerate(parts())], []
    together = Lockstep().run(
        [lambda part=part, k=k: fit(part, 2 + k, log) for k, part in enumerate(parts())]
    )
    for a, b in zip(alone, together, strict=True):
        same(a, b)
    # the first to wait counts the read
    assert log == [(2, 0, 2 * N), (3, 2, N), (4, 3, N)]


def test_fits_inside_of_a_fit_share_with_all_others():
    assert Lockstep().run([current_turn]) == [None]
    alone, log = [fit(part) for part in parts()], []

    def outer(k):
        inner = Lockstep().run([lambda part=part: fit(part, log=log) for part in parts()])
        return inner, fit(parts()[k], log=log)

    for k, (inner, own) in enumerate(Lockstep().run([lambda k=k: outer(k) for k in range(2)])):
        same(own, alone[k])
        for a, b in zip(alone, inner, strict=True):
            same(a, b)
    assert sum(n_passes - n_shared for n_passes, n_shared, _ in log) == 3 + 3
    assert n_served() == 0

    def fails():
        Lockstep().run([lambda: fit(parts()[0]), lambda: 1 / 0])

    with pytest.raises(ZeroDivisionError):
        Lockstep().run([lambda: fit(parts()[0]), fails, lambda: fit(parts()[1])])


def test_the_error_of_the_first_fit_that_fails_is_raised():
    ended = []

    def fails(source, n_reads, word):
        try:
            fit(source, n_reads)
            raise ValueError(f"the fit ended {word}")
        finally:
            ended.append(word)

    def runs(word):
        try:
            return fit(parts()[0], 9)
        finally:
            ended.append(word)

    first, second, _ = parts()
    functions = [
        lambda: fit(first),
        lambda: fails(first, 4, "late"),
        lambda: fails(second, 1, "early"),
        lambda: runs("given up"),
    ]
    with pytest.raises(ValueError, match="the fit ended late"):
        Lockstep().run(functions)
    assert ended == ["early", "given up", "late"]


def bad_step(state, chunk):
    if (chunk.numbers == 700).any():
        raise ValueError("a bad value in row 700")
    return step(state, chunk)


def test_a_shared_read_that_fails_says_whose_rows_were_at_fault():
    """Both read the row; the note is that of the read alone."""
    bad = Fold(start, bad_step, add_sums, rows=FOLD.rows)

    def fails(source, name):
        with open_run(source, name=name) as run:
            return run.fold(bad, name="read")

    whole = table()
    with pytest.raises(ValueError, match="a bad value in row 700") as error:
        Lockstep().run([lambda: fails(whole, "one"), lambda: fails(whole, "two")])
    assert "in read 'one-read', rows 700 to 770" in str(error.value.__notes__)


def interrupted_step(state, chunk):
    if (chunk.numbers == 1400).any():
        raise KeyboardInterrupt
    return step(state, chunk)


def test_an_interrupted_read_goes_on_from_its_lanes(tmp_path, monkeypatch):
    alone = [fit(part) for part in parts()]
    places = [tmp_path / f"{k}" for k in range(3)]

    def run():
        each = zip(parts(), places, strict=True)
        return Lockstep().run(
            [lambda part=part, place=place: fit(part, checkpoint=place) for part, place in each]
        )

    stops = Fold(start, interrupted_step, add_sums, rows=FOLD.rows)
    with monkeypatch.context() as patched:
        patched.setitem(globals(), "FOLD", stops)
        with pytest.raises(KeyboardInterrupt):
            run()
    assert all('"nodes"' in (place / "manifest.json").read_text() for place in places)
    for a, b in zip(alone, run(), strict=True):
        same(a, b)
    for a, part, place in zip(alone, parts(), places, strict=True):  # and each without the others
        same(a, fit(part, checkpoint=place))


@pytest.mark.parametrize("room, at_once", [(1, 1), (2.1, 2), (9, 3)])
def test_fits_wait_for_room(room, at_once):
    """Each holds 100 MiB between its reads."""
    need, open_now, most = Needs("read", 1000, driver_bytes=100 * MIB), set(), []
    plan = make_plan(table(), [need], budget=1 << 30, threads=2)
    assert held_bytes(plan) == 100 * MIB

    def fits(source, k):
        with open_run(source, need) as run:
            open_now.add(k)
            found = run.fold(FOLD, name="read")
            most.append(len(open_now))
            open_now.remove(k)
            return found["margins"]

    lockstep = Lockstep(int(room * 100 * MIB + plan.peak_bytes - held_bytes(plan)))
    found = lockstep.run([lambda p=p, k=k: fits(p, k) for k, p in enumerate(parts())])
    assert found == [fit(part, 1)[0][0]["margins"] for part in parts()]
    assert max(most) == at_once
    assert lockstep.peak_bytes <= lockstep.budget


def test_where_no_fit_can_go_on_the_first_does_and_the_others_start_anew():
    small, large = (Needs("read", 1000, driver_bytes=n * MIB) for n in (40, 100))
    began = []

    def fits(source, k):
        began.append(k)
        with open_run(source, small) as run:
            run.fold(FOLD, name="first")
            run.replan(make_plan(source, [large], budget=1 << 30, threads=2))
            return run.fold(FOLD, name="second")["margins"]

    plan = make_plan(table(), [large], budget=1 << 30, threads=2)
    lockstep = Lockstep(plan.peak_bytes + 39 * MIB)
    found = lockstep.run([lambda p=p, k=k: fits(p, k) for k, p in enumerate(parts(2))])
    assert found == [fit(part, 2)[0][1]["margins"] for part in parts(2)]
    assert began == [0, 1, 1]
    assert lockstep.peak_bytes <= lockstep.budget


@pytest.mark.parametrize("order", "CF")
def test_a_copy_lies_as_the_chunk_does(order):
    X = np.arange(60.0).reshape(10, 6)
    X = np.array(X, order=order)
    for cut in (X, X[:7], X[:, :4], X[:7, :4], X[:0]):
        copy = alike(Chunk(cut, rows=range(len(cut)))).X
        np.testing.assert_array_equal(copy, cut)
        assert not np.shares_memory(copy, cut)
        assert copy.size == 0 or copy.strides == cut.strides


def test_a_fit_is_counted_in_one_phase_at_a_time():
    data = table()
    needs = [Needs("summary", 20 * MIB), Needs("search", 10 * MIB, driver_bytes=50 * MIB)]
    plan = make_plan(data, needs, budget=1 << 30, threads=1)
    n_states = dict(plan.terms)["search"][0].n
    one, three = (together_bytes([plan] * n, 1, 0) for n in (1, 3))
    assert three - one == 2 * max(20 * n_states - 50, 10 * n_states) * MIB
    assert held_bytes(plan) == 50 * MIB


def test_the_plan_of_several_fits_is_that_of_as_many_as_there_is_room_for():
    data = table()
    needs = [Needs("read", 10 * MIB, driver_bytes=30 * MIB), Needs("last", 20 * MIB)]
    alone = make_plan(data, needs, budget=1 << 30, threads=1)
    with sl.config_context(memory_budget="1GiB", scheduler="synchronous"):
        three = make_plan(data, needs_together(needs, data, 3, 0, 0))
    with sl.config_context(memory_budget=alone.peak_bytes, scheduler="synchronous"):
        assert needs_together(needs, data, 3, 0, 0) == needs
    n_states = dict(alone.terms)["read"][0].n
    # three times what each holds, and the largest states of any phase
    assert abs(three.peak_bytes - (3 * 30 + 3 * 20 * n_states + 10) * MIB) < MIB
