"""The walks that take turns leave no value of a parameter out."""

from collections import Counter

import pytest
from turns import left_out


class Member:
    """A collected test with those parameters, as far as turns look at it."""

    path, originalname = "test_it.py", "test"

    def __init__(self, mark, **params):
        self.mark, self.callspec, self.params = mark, self, params

    def get_closest_marker(self, name):
        return self.mark.mark if self.mark and name == "turns" else None


def kept(mark, pairs):
    members = [Member(mark, a=[i], b=f"value {j}") for i, j in pairs]
    out = left_out(members)
    return [pair for pair, member in zip(pairs, members, strict=True) if member not in out]


@pytest.mark.parametrize(("n", "m"), [(39, 2), (39, 3), (10, 5), (5, 5)])
@pytest.mark.parametrize("second_outside", [False, True])
def test_each_value_of_each_parameter_comes(n, m, second_outside):
    pairs = [(i, j) for i in range(n) for j in range(m)]
    if second_outside:
        pairs.sort(key=lambda pair: pair[::-1])
    for first in range(m):
        found = kept(pytest.mark.turns(m, first), pairs)
        assert {i for i, _ in found} == set(range(n))
        assert {j for _, j in found} == set(range(m))
        assert max(Counter(i for i, _ in found).values()) == 1


def test_five_tests_in_turn_take_each_member_once():
    """One parameter, and as many tests as turns."""
    pairs = [(i, 0) for i in range(39)]
    taken = [i for k in range(5) for i, _ in kept(pytest.mark.turns(5, k), pairs)]
    assert sorted(taken) == list(range(39))


class Alone:
    """A collected test without parameters, with that mark."""

    path, originalname = "test_it.py", "test"

    def __init__(self, mark):
        self.mark = mark

    def get_closest_marker(self, name):
        return self.mark.mark if name == "turns" else None


def test_a_test_may_be_left_to_long_runs():
    long, once = Alone(pytest.mark.turns(1, 1)), Alone(pytest.mark.turns(1, 0))
    assert left_out([long, once]) == [long]


def test_without_the_mark_nothing_is_left_out():
    assert kept(None, [(0, 1), (2, 3)]) == [(0, 1), (2, 3)]
