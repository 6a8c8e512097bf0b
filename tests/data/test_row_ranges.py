import pickle
import tracemalloc

import numpy as np
import pytest

from streamlearn.data.row_ranges import Ref, Refs

TUPLE = (Ref(0, 3, 24), Ref(3, 4, 8), Ref(9, 12, 24))


def test_is_the_sequence_of_its_refs():
    refs = Refs.of_runs(((0, 3), (3, 4), (9, 12)), 8.0)
    assert refs == Refs.of(TUPLE) == TUPLE
    assert tuple(refs) == TUPLE
    assert Refs.of(refs) is refs
    assert len(refs) == 3
    assert refs[-1] == TUPLE[-1]
    assert type(refs[0].start) is int  # goes into messages and JSON
    assert refs[1:] == TUPLE[1:]
    assert refs[np.array([2, 0])] == (TUPLE[2], TUPLE[0])
    assert refs.sizes.tolist() == [3, 1, 3]
    assert pickle.loads(pickle.dumps(refs[1:2])) == TUPLE[1:2]
    assert refs != TUPLE[:2]
    with pytest.raises(IndexError):
        refs[3]


def test_none_are_refs_too():
    assert not Refs.of(())
    assert not Refs.of_runs(iter(()), 8.0)
    assert Refs.of(()) == Refs.of_runs(iter(()), 8.0)


def test_a_run_takes_numbers_not_objects():
    n = 100_000
    tracemalloc.start()
    try:
        refs = Refs.of_runs(((i, i + 1) for i in range(n)), 4.0)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(refs) == n
    assert held < 26 * n
    assert peak < 80 * n
