"""Addition of states."""

from copy import deepcopy
from typing import NamedTuple

import numpy as np
import pytest

from streamlearn.passes.sums import add_sums
from streamlearn.testing.rows import same


class Pair(NamedTuple):
    total: np.ndarray
    count: float


def example(k: float):
    """A state of every kind of node, all leaves `k` times some number."""
    pair = Pair(k * np.arange(3.0), 2.0 * k)
    return {"pair": pair, "list": [k * np.ones((2, 2)), (k, [3 * k])], "number": 5 * k}


def test_every_leaf_is_added():
    same(add_sums(example(2.0), example(7.0)), example(9.0), rtol=0)


def test_a_state_of_zeros_is_the_identity():
    same(add_sums(example(0.0), example(3.0)), example(3.0), rtol=0)
    same(add_sums(example(3.0), example(0.0)), example(3.0), rtol=0)


def test_arrays_of_the_first_state_are_updated_in_place_and_the_second_is_left_as_it_is():
    a, b = example(1.0), example(2.0)
    array, kept = a["pair"].total, deepcopy(b)
    summed = add_sums(a, b)
    assert summed["pair"].total is array
    assert type(summed["pair"]) is Pair
    same(b, kept, rtol=0)


def test_states_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match=r"zip\(\) argument 2 is (shorter|longer)"):
        add_sums([1.0, 2.0], [1.0])
