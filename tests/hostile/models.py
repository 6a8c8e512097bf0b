"""Stored models changed at random, with checksums made right: loaded, and asked for decisions."""

import contextlib
import copy
import random
import re
from functools import cache
from pathlib import Path

import numpy as np
from hostile.archives import put_together, take_apart
from stored.make import models

import streamlearn as sl

STORED = Path(__file__).parent.parent / "stored" / "format-1"
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31, -(2**31), 2**62, 2**70, 0.5, float("nan"), float("inf"))
OTHERS = (None, True, "", "x", "streamlearn.__main__:x", [], {}, [1, 2], {"$": "tuple"})


@cache
def stored():
    """(name, rows, header, arrays) of every stored model, and of an embedding."""
    found = []
    for name, _, X, _ in models():
        raw = (STORED / f"{name}.slm").read_bytes()
        found.append((name, X[:50], *take_apart(raw)))
    return found


def places(node):
    """Every (container, key) of a JSON tree: none, if it is a number, a string or null."""
    if isinstance(node, dict | list):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in list(items):
            yield node, key
            yield from places(value)


def change_header(rng, header):
    """One value becomes another, or vanishes, or takes the place of its neighbour."""
    node, key = rng.choice(list(places(header["tree"])))
    kind = rng.randrange(4)
    value = node[key]
    if kind == 0 and isinstance(value, int | float):
        node[key] = value + rng.choice((-2, -1, 1, 2, 100))
    elif kind == 1:
        del node[key]
    elif kind == 2:
        other, place = rng.choice(list(places(header["tree"])))
        node[key] = copy.deepcopy(other[place])
    else:
        node[key] = rng.choice(NUMBERS + OTHERS)


def change_array(rng, header, arrays):
    """Some bytes of one array, or one of its numbers, or its length."""
    at = rng.randrange(len(arrays))
    array = arrays[at]
    kind = rng.randrange(4)
    if kind == 0 and len(array) >= 8:
        word = np.frombuffer(array, np.int64, len(array) // 8).copy()
        word[rng.randrange(len(word))] = rng.choice((0, -1, 1, 5, 1000, 2**31, 2**62, -(2**40)))
        array[: word.nbytes] = word.tobytes()
    elif kind == 1 and len(array) >= 8:
        word = np.frombuffer(array, np.float64, len(array) // 8).copy()
        word[rng.randrange(len(word))] = rng.choice((np.nan, np.inf, -np.inf, 1e308, -1e-310, 0.0))
        array[: word.nbytes] = word.tobytes()
    elif kind == 2 and array:
        array[rng.randrange(len(array))] ^= 1 << rng.randrange(8)
    else:
        arrays[at] = array[: rng.randrange(len(array) + 1)]


def warm(folder):
    """Every stored model loaded and asked: kernels are compiled once."""
    for name, X, header, arrays in stored():
        path = folder / f"{name}.slm"
        path.write_bytes(put_together(header, arrays))
        sl.load(path).predict(X)


def case(seed, folder, _ours_is_done):
    """What comes of the model with this seed's changes."""
    rng = random.Random(seed)
    name, X, header, arrays = rng.choice(stored())
    header, arrays = copy.deepcopy(header), [bytearray(array) for array in arrays]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        with contextlib.suppress(ValueError, IndexError):  # nothing left to change
            if rng.random() < 0.5:
                change_header(rng, header)
            else:
                change_array(rng, header, arrays)
    path = folder / f"{name}.slm"
    path.write_bytes(put_together(header, arrays))
    try:
        model = sl.load(path)
    except sl.StreamlearnError:
        return "refused"
    try:
        answer = model.predict(X)
        decide = getattr(model, "decision_function", model.predict)
        decisions = decide(X)
    except sl.StreamlearnError:
        return "refused at prediction"
    except ValueError as error:  # what scikit-learn raises for rows of another kind
        if re.search("feature|levels|holds strings", str(error)):
            return "rows refused"
        raise
    assert len(answer) == len(decisions) == len(X)
    return "answered"
