"""What memory is used and to be had; the peak of a run stays within its plan."""

import json
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from streamlearn.engine.memory import (
    _room_in_cgroup,
    available_bytes,
    peak_resident_bytes,
    resident_bytes,
)

MIB = 1 << 20


def test_resident_memory_grows_with_an_array():
    before = resident_bytes()
    with mmap.mmap(-1, 32 * MIB) as held:
        for first in range(0, len(held), MIB):
            held[first : first + MIB] = bytes(MIB)
        assert 31 * MIB < resident_bytes() - before < 40 * MIB
        assert peak_resident_bytes() >= before + 31 * MIB


SAMPLED = """
import mmap
from streamlearn.engine.memory import MemorySampler, resident_bytes
with MemorySampler() as sampler:
    before = resident_bytes()
    with mmap.mmap(-1, 1 << 25) as held:
        for first in range(0, len(held), 4096):
            held[first] = 1
print(sampler.peak_bytes - before)
"""


def test_the_sampler_sees_a_peak_within_its_block():
    """In a fresh process: one that was larger before has no new peak, and a sample may miss it."""
    done = subprocess.run(
        [sys.executable, "-c", SAMPLED], capture_output=True, text=True, check=True
    )
    assert 31 * MIB < int(done.stdout) < 40 * MIB


@pytest.mark.parametrize(
    "limit, used, room", [("max", 5, 1 << 62), ("100", 60, 50), ("100", 150, 0)]
)
def test_room_in_a_control_group(tmp_path, limit, used, room):
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 10\n")
    assert _room_in_cgroup(tmp_path, "memory.max", "memory.current") == room
    assert _room_in_cgroup(tmp_path / "none", "memory.max", "memory.current") == 1 << 62


def test_available_memory_is_sane():
    assert 64 * MIB < available_bytes() < 1 << 50


MEASURED = """
import sys, json
sys.path[:0] = {paths!r}
import numpy as np
from dataclasses import dataclass
from streamlearn.data.source import Chunk
from streamlearn.engine.memory import peak_resident_bytes
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import make_plan
from streamlearn.engine.run import Run
from streamlearn.passes.fold import Fold, RowState
from engine_kit import Rows, Shuffled
import scipy.linalg, threadpoolctl, dask.system

class Wide(Rows):
    def reader(self):
        return WideReader(self)

class WideReader:
    def __init__(self, source):
        self.X = np.empty((64, source.slice_rows), np.float32).T
    def __enter__(self):
        return self
    def __exit__(self, *exc):
        pass
    def read(self, ref):
        X = self.X[: ref.n_rows]
        X.fill(1.0)
        return Chunk(X, rows=range(ref.start, ref.stop))

def start():
    return np.zeros(1 << 20)
def step(state, chunk):
    state += chunk.X[0, 0]
    for row in chunk.state.values():
        row += 1
    return state
def add(a, b):
    a += b
    return a

rows = (RowState("a", "float64", 2),)
mergeable, ordered = Fold(start, step, add, rows=rows), Fold(start, step, rows=rows)
source = Wide({n_rows}, p=64, slice_rows=32768, row_nbytes=256)
needs = [
    Needs("fold", 8 << 20, row_state_bytes=16),
    Needs("sweep", 8 << 20, row_state_bytes=16, group=2),
]
small = Wide(64, p=64, slice_rows=32, row_nbytes=256)
loading = make_plan(small, needs, budget=1 << 40, threads=1)
with Run(small, loading, name="warm", identity={{}}) as run:
    run.fold(mergeable, name="a")
before = peak_resident_bytes()
plan = make_plan(source, needs, budget={budget}, threads=4)
with Run(source, plan, name="test", identity={{}}) as run:
    for t in range(2):
        run.fold(mergeable, name="a")
        run.sweep(ordered, None, Shuffled(2), pass_index=t, name="b")
used = peak_resident_bytes() - before
print(json.dumps({{"used": used, "planned": plan.peak_bytes, "lanes": plan.lanes_in_flight}}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("budget_mib", [96, 160])
def test_the_peak_stays_within_the_plan_and_does_not_grow_with_the_rows(budget_mib):
    tests = Path(__file__).parent.parent
    planned = []
    for n_rows in (600_000, 2_400_000):
        code = MEASURED.format(
            paths=[str(tests), str(tests.parent)], n_rows=n_rows, budget=budget_mib * MIB
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)
        assert ended.returncode == 0, ended.stderr.decode()
        measured = json.loads(ended.stdout)
        assert measured["used"] <= measured["planned"] <= budget_mib * MIB
        planned.append(measured["planned"])
    assert planned[0] == planned[1]
