"""The arithmetic of a plan, done by hand; refusals that say what would fit."""

import pickle
import re

import pytest
from engine_kit import Rows

from streamlearn.config import config_context, get_config
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import RESERVE_BYTES, make_plan, plan_within
from streamlearn.errors import MemoryBudgetError

MIB = 1 << 20


def source(slice_rows=4096, n_rows=1 << 20):
    """1 KiB a row."""
    return Rows(n_rows, slice_rows=slice_rows, row_nbytes=1024)


def test_the_sum_of_the_law():
    needs = Needs(
        "fit",
        state_bytes=8 * MIB,
        step_bytes_per_row=256,
        driver_bytes=3 * MIB,
        model_bytes=MIB,
        row_state_bytes=8,
        passes=(2, 9),
    )
    plan = make_plan(source(), [needs], budget=10**10, threads=4)
    assert plan.n_lanes == 16
    states = (4 + 4 + 1) * 8 * MIB  # log2(16) = 4
    slices = 4 * 4 * MIB
    steps = 4 * 4096 * (256 + 8)
    assert plan.peak_bytes == states + slices + steps + 4 * MIB + RESERVE_BYTES
    assert plan.lanes_in_flight == 4
    assert plan.disk_bytes == 2 * 8 << 20
    assert plan.passes == (2, 9)
    assert plan.bytes_per_pass == 1 << 30


def test_the_peak_is_that_of_the_largest_phase():
    plan = make_plan(source(), [Needs("a", MIB), Needs("b", 5 * MIB)], budget=10**10, threads=1)
    assert plan.peak_bytes == (1 + 4 + 1) * 5 * MIB + 4 * MIB + RESERVE_BYTES
    assert plan.passes == (2, 2)


def test_work_between_reads_holds_no_slice():
    work = Needs("work", 0, 256, driver_bytes=3 * MIB, model_bytes=MIB, step_bytes=MIB,
                 passes=(0, 0), on_driver=True)  # fmt: skip
    plan = make_plan(source(), [work], budget=10**10, threads=4)
    assert plan.peak_bytes == 4 * MIB + RESERVE_BYTES
    assert plan.passes == (0, 0)


def test_a_plan_made_anew_keeps_the_phases_that_are_done():
    needs = [Needs("before", MIB), Needs("summary", 5 * MIB), Needs("fit", 90 * MIB)]
    first = make_plan(source(), needs, budget=10**10, threads=1)
    again = make_plan(source(2048), [Needs("fit", MIB), Needs("end", 2 * MIB)], budget=10**10,
                      threads=1).after("summary", first)  # fmt: skip
    assert [name for name, _ in again.terms] == ["before", "summary", "fit", "end"]
    assert again.terms[:2] == first.terms[:2]
    assert again.peak_bytes == (1 + 4 + 1) * 5 * MIB + 4 * MIB + RESERVE_BYTES
    assert again.slice_rows == 2048
    assert again.passes == first.passes == (3, 3)


def test_what_is_not_known_yet_is_said_once():
    needs = [Needs("a", MIB, note="at most ten"), Needs("b", MIB, note="at most ten")]
    plan = make_plan(source(), needs, budget=10**10, threads=1)
    assert plan.note == "at most ten"
    assert re.search(r"^not known yet +at most ten$", str(plan), re.MULTILINE)
    assert "not known yet" not in str(make_plan(source(), [Needs("a", MIB)], budget=10**10))


def test_a_sweep_counts_two_groups():
    needs = Needs("sweep", state_bytes=MIB, step_bytes_per_row=16, row_state_bytes=8, group=4)
    plan = make_plan(source(), [needs], budget=10**10, threads=4)
    groups = 2 * 4 * (4 * MIB + 8 * 4096)
    steps = 4 * 4096 * 16
    assert plan.peak_bytes == 2 * MIB + groups + 4 * MIB + steps + RESERVE_BYTES


def test_fewer_lanes_then_finer_slices():
    needs = [Needs("fit", MIB)]
    assert make_plan(source(), needs, budget=35 * MIB, threads=4).lanes_in_flight == 4
    assert make_plan(source(), needs, budget=34 * MIB, threads=4).lanes_in_flight == 3
    finer = make_plan(source(), needs, budget=19 * MIB, threads=4)
    assert (finer.slice_rows, finer.slices_halved, finer.lanes_in_flight) == (2048, 1, 1)


def test_the_number_of_lanes_does_not_depend_on_budget_or_threads():
    plans = [
        make_plan(source(), [Needs("fit", MIB)], budget=b * MIB, threads=t)
        for b, t in [(20, 1), (10**4, 1), (10**4, 8)]
    ]
    assert {(plan.n_lanes, plan.slice_rows) for plan in plans} == {(16, 4096)}


def test_a_plan_that_cannot_fit_prints_the_sum_and_what_would():
    needs = [Needs("newton", 8 * MIB, driver_bytes=24 * MIB)]
    text = (
        r"Plan needs at least 82.2 MiB for 'newton' with one lane at a time and slices of 256 rows "
        r"\(6 x 8.0 MiB state \+ 256.0 KiB slice \+ 24.0 MiB driver \+ 10.0 MiB reserve\) "
        r"but the budget is 64.0 MiB; raise memory_budget to 83 MiB"
    )
    with pytest.raises(MemoryBudgetError, match=text):
        make_plan(source(), needs, budget=64 * MIB, threads=4)
    text = r"Plan needs at least 82.2 MiB .*but the budget is 1.0 MiB"
    with pytest.raises(MemoryBudgetError, match=text), config_context(memory_budget="1MiB"):
        make_plan(source(), needs)


class ByPages(Rows):
    """Rows whose finest slices are dearer to read than those of a middling size."""

    @property
    def overhead_nbytes(self):
        return (50 if self.slice_rows < 1024 else 5) * MIB


def test_a_refusal_names_the_smallest_plan_that_was_tried():
    rows = ByPages(1 << 20, slice_rows=4096, row_nbytes=1024)
    text = r"Plan needs at least 72\.0 MiB .* slices of 1,024 rows .*memory_budget to 72 MiB$"
    with pytest.raises(MemoryBudgetError, match=text):
        make_plan(rows, [Needs("newton", 8 * MIB, driver_bytes=8 * MIB)], budget=64 * MIB)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_a_refusal_names_a_budget_that_was_tried_where_needs_follow_the_budget(share):
    """A part of the budget set is what the phase takes beside its state."""

    def make(budget):
        set_now = get_config().memory_budget
        needs = [Needs("newton", 8 * MIB, driver_bytes=int(share * set_now))]
        return make_plan(source(), needs, budget=budget)

    with (
        config_context(memory_budget="16MiB"),
        pytest.raises(MemoryBudgetError, match="is 16.0 MiB") as refused,
    ):
        plan_within(make)
    named = int(re.search(r"raise memory_budget to (\d+) MiB$", str(refused.value))[1])
    with config_context(memory_budget=f"{named} MiB"):
        assert plan_within(make).peak_bytes <= named * MIB
    least = (58 + 0.25) / (1 - share)  # states, reserve and the finest slice
    assert least <= named <= 1.1 * least + 1


def test_a_refusal_crosses_processes():
    with pytest.raises(MemoryBudgetError, match="Plan needs") as refused:
        make_plan(source(), [Needs("newton", 8 * MIB)], budget=MIB)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_scratch_in_memory_counts_as_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("streamlearn.engine.planning.lies_in_memory", lambda folder: True)
    needs = [Needs("cache", 0, scratch_bytes_per_row=100)]
    plan = make_plan(source(), needs, budget=10**10, threads=1)
    assert plan.peak_bytes == (100 << 20) + 4 * MIB + RESERVE_BYTES


def test_it_prints_as_a_table():
    plan = make_plan(source(), [Needs("fit", MIB, passes=(2, 9))], budget=35 * MIB, threads=4)
    lines = str(plan).splitlines()
    assert lines[0] == "rows             1,048,576"
    assert lines[1] == "lanes            16, 4 at once"
    assert lines[3] == "reads            2 to 9 of 1.0 GiB each"
    assert lines[5] == "memory           35.0 MiB of a budget of 35.0 MiB"
    assert lines[7] == "    state                   9.0 MiB  (9 x 1.0 MiB)"
