"""Lanes tile the refs, by the data alone; the merge tree keeps lane order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlearn.data.row_ranges import Ref
from streamlearn.engine.lanes import MAX_LANES, MergeTree, cut_evenly, cut_lanes


def make_refs(sizes):
    return [Ref(i, i + 1, size) for i, size in enumerate(sizes)]


@pytest.mark.parametrize(
    "n_refs, nbytes, n_lanes",
    [
        (0, 1, 0),
        (5, 1, 5),
        (100, 1, 16),
        (100, 16 << 20, 16),
        (1000, 16 << 20, 63),
        (2000, 1 << 30, 2000),
        (9000, 256 << 20, MAX_LANES),
    ],
)
def test_number_of_lanes(n_refs, nbytes, n_lanes):
    assert len(cut_lanes(make_refs([nbytes] * n_refs))) == n_lanes


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60), st.data())
def test_runs_tile_and_are_never_empty(sizes, data):
    n_runs = data.draw(st.integers(1, len(sizes)))
    cuts = cut_evenly(sizes, n_runs)
    assert [start for start, _ in cuts[1:]] == [stop for _, stop in cuts[:-1]]
    assert (cuts[0][0], cuts[-1][1], len(cuts)) == (0, len(sizes), n_runs)
    assert all(start < stop for start, stop in cuts)


def test_runs_are_even():
    assert cut_evenly([1] * 12, 3) == [(0, 4), (4, 8), (8, 12)]


@given(st.integers(1, 200), st.randoms(use_true_random=False))
def test_any_order_of_ending_gives_the_same_tree(n_lanes, random):
    def run(order):
        tree, nodes = MergeTree(n_lanes), {}
        for lane in order:
            node, value = tree.lift((0, lane)), str(lane)
            nodes[node] = value
            while node != tree.root and tree.neighbour(node) in nodes:
                left, right = sorted((node, tree.neighbour(node)))
                value = f"({nodes.pop(left)},{nodes.pop(right)})"
                node = tree.lift(tree.above(left))
                nodes[node] = value
        return nodes[tree.root]

    shuffled = list(range(n_lanes))
    in_order = run(shuffled)
    random.shuffle(shuffled)
    assert run(shuffled) == in_order
    assert [int(x) for x in in_order.replace("(", "").replace(")", "").split(",")] == list(
        range(n_lanes)
    )


def test_lanes_below_a_node():
    tree = MergeTree(5)
    assert tree.lift((0, 4)) == (2, 1)
    assert tree.root == (3, 0)
    assert list(tree.lanes_below((2, 1))) == [4]
    assert list(tree.lanes_below((3, 0))) == [0, 1, 2, 3, 4]
