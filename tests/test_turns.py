"""The walks that take turns leave nothing out that no other member has."""

from collections import Counter

import pytest
from turns import is_left_out


class Member:
    """A collected test with those parameters, as far as turns look at it."""

    def __init__(self, mark, **indices):
        self.mark, self.callspec = mark, self
        self.indices = indices

    def get_closest_marker(self, name):
        return self.mark.mark if self.mark and name == "turns" else None


def kept(mark, n, m):
    pairs = [(i, j) for i in range(n) for j in range(m)]
    return [(i, j) for i, j in pairs if not is_left_out(Member(mark, a=i, b=j))]


@pytest.mark.parametrize(("n", "m"), [(39, 2), (39, 3), (10, 5), (5, 5)])
def test_each_value_of_each_parameter_comes(n, m):
    for first in range(m):
        pairs = kept(pytest.mark.turns(m, first), n, m)
        assert {i for i, _ in pairs} == set(range(n))
        assert {j for _, j in pairs} == set(range(m))
        assert max(Counter(i for i, _ in pairs).values()) == 1


def test_five_tests_in_turn_take_each_member_once():
    """One parameter, and as many tests as turns."""
    marks = [pytest.mark.turns(5, first) for first in range(5)]
    taken = [i for mark in marks for i in range(39) if not is_left_out(Member(mark, a=i))]
    assert sorted(taken) == list(range(39))


def test_without_the_mark_nothing_is_left_out():
    assert kept(None, 3, 3) == [(i, j) for i in range(3) for j in range(3)]
