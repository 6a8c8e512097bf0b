"""What the experiments of `ShareBoostClassifier` in memory have in common."""

from pathlib import Path
from typing import NamedTuple


class Task(NamedTuple):
    """What a run is asked for."""

    shared: Path
    tiny: bool
    rivals: bool
    n_templates: int
    n_rows: int
    """0: all."""
    data: str
    """Of the UCI sets which."""


def boost(n, **parameters):
    """The paper's objective, which has no ridge, where an experiment asks for none."""
    from streamlearn import ShareBoostClassifier

    return ShareBoostClassifier(n, **({"ridge": 0.0} | parameters))


def error_path(model, X, y):
    """(n, error) along the path."""
    return [(int(n), 1 - model.at(n).score(X, y)) for n in model.path_["n"] if n]


def least_n(path, error):
    """Fewest columns with at most this error; None if never."""
    return next((n for n, e in path if e <= error), None)
