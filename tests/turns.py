"""Walks whose members take turns: what a run walks of a product that takes hours.

A test with ``@pytest.mark.turns(every, first)`` keeps the members whose numbers, summed over its
parameters, are `first` modulo `every`.  So each value of each parameter still comes, as long as
the others have `every` values; ``--runlong`` walks all members.
"""


def is_left_out(item):
    """Whether this member of a walk is left to ``--runlong``."""
    mark = item.get_closest_marker("turns")
    if mark is None:
        return False
    every, first = mark.args
    return sum(item.callspec.indices.values()) % every != first
