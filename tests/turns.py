"""Walks whose members take turns: what a run walks of a product that takes hours.

A test with ``@pytest.mark.turns(every, first)`` keeps the members whose numbers, summed over its
parameters, are `first` modulo `every`; the values of a parameter are numbered as they come.  So
each value of each parameter still comes, as long as the others have `every` values; ``--runlong``
walks all members, and so does whoever names some.  ``turns(1, 1)`` leaves a test, or a member, to
``--runlong``: another one does most of what it does.
"""


def left_out(items):
    """The members of walks, among the tests collected, that are left to ``--runlong``."""
    numbers, out = {}, []
    for item in items:
        mark = item.get_closest_marker("turns")
        if mark is None:
            continue
        every, first = mark.args
        total = 0
        params = item.callspec.params if hasattr(item, "callspec") else {}
        for name, value in params.items():
            known = numbers.setdefault((item.path, item.originalname, name), {})
            total += known.setdefault(repr(value), len(known))
        if total % every != first:
            out.append(item)
    return out
