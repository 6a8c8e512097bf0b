"""Parameters that take a list, an array or a mapping refuse what is none, each in one sentence.

They are found in the signatures: a parameter is one of them unless its annotation is of single
values.  A new one without an entry in `MEANT` fails.
"""

import inspect
import re
import warnings

import numpy as np
import pytest
from laws.subjects import QUICK
from sklearn.base import is_classifier

import streamlearn as sl

KINDS = {name: getattr(sl, name) for name in QUICK if inspect.isclass(getattr(sl, name))}
SINGLE = {"int", "float", "str", "bool", "None", "Loss", "Basis"}
"""Annotations of single values."""

MEANT = {
    "Cs": (),
    "class_weight": ("empty mapping",),
    "convex": ("empty mapping",),
    "encoding": ("empty mapping",),
    "gate": (),
    "groups": (),
    "init": (),
    "interactions": ("empty",),
    "monotone": ("empty mapping",),
    "n_bases": (),
    "n_components": (),
    "n_learners": (),
    "n_prototypes": (),
    "n_selected": (),
    "n_terms": (),
    "neighbours": (),
    "quantile": (),
    "ridge": (),
    "similarity": (),
    "tau": ("infinite",),
}
"""Parameter -> those of the values below that it may have."""

BAD = {
    "ragged": [[0, 1], [2]],
    "ragged words": [[0, 1], [2, "a"]],
    "a word": [0.1, "x"],
    "words": ["\0", "x"],
    "bytes": [b"a"],
    "None within": [1, None],
    "nan": [1.0, float("nan")],
    "infinite": [1.0, float("inf")],
    "negative": [-1, -2],
    "no number": [True, "no"],
    "nested": [[[[1]]]],
    "half nested": [[1], 2],
    "nested empty": [[]],
    "empty": [],
    "empty array": np.array([]),
    "empty range": range(0),
    "empty mapping": {},
    "complex": [1.0, 2j],
    "complex array": np.array([1j]),
    "cube": np.ones((1, 1, 1)),
    "objects": np.array([1, None, "a"], object),
    "array of words": np.array(["x"]),
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "set": {1, 2},
    "generator": (i for i in (1, 2)),
    "mapping of lists": {"a": [1]},
    "mapping of objects": {0: object()},
    "object": object(),
}
COUNTS = ("n_components", "n_learners", "n_selected", "n_terms")
ABOVE_FLOATS = ("Cs", "tau", "ridge", "init", "class_weight", "n_bases", *COUNTS)
"""Parameters of numbers: an integer above all floats is none."""


def takes_several(parameter):
    return not set(re.split(r"\s*\|\s*", str(parameter.annotation))) <= SINGLE


CASES = [
    (name, parameter.name)
    for name, kind in sorted(KINDS.items())
    for parameter in inspect.signature(kind).parameters.values()
    if takes_several(parameter)
]


def test_every_such_parameter_has_an_entry():
    assert {parameter for _, parameter in CASES} == set(MEANT)


def refused(name, parameter, value):
    """The message by which a fit refuses the value; None if it does not."""
    kind = KINDS[name]
    rng = np.random.default_rng(0)
    X = rng.random((60, 3), dtype=np.float32)
    y = np.arange(60) % 2 if is_classifier(kind()) else X.sum(axis=1)
    more = {"loss": "quantile"} if parameter == "quantile" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kind(**{**QUICK[name], **more, parameter: value}).fit(X, y)
        except (TypeError, ValueError) as error:
            return str(error)
    return None


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_what_is_no_such_sequence_is_refused_by_name(name, parameter):
    huge = {"huge": {0: 10**400} if parameter == "class_weight" else [1, 10**400]}
    for said, value in (BAD | (huge if parameter in ABOVE_FLOATS else {})).items():
        message = refused(name, parameter, value)
        if said in MEANT[parameter]:
            continue
        assert message is not None, said
        assert re.search(rf"\b{parameter}\b", message), (said, message)
        numpys = "inhomogeneous|could not convert|float\\(\\) argument|ambiguous|not supported"
        assert not re.search(numpys, message), (said, message)
        assert "\n" not in message.strip(), (said, message)
        assert len(message) < 700, (said, message)
