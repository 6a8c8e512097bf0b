"""Every record that an archive may have to hold has a name there, and names that it keeps."""

import collections.abc
import importlib
import pkgutil
import types
import typing
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import streamlearn as sl
from streamlearn.data.files.archive import read_archive, write_archive
from streamlearn.data.files.record_types import check_types, with_floats
from streamlearn.data.files.records import RECORDS, record_class, record_name
from streamlearn.errors import ArchiveError
from streamlearn.numeric.parametric import Parametric


def modules():
    for found in pkgutil.walk_packages(sl.__path__, "streamlearn."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def is_record(kind):
    """Losses and bases are none: archives hold them by class and numbers."""
    return isinstance(kind, type) and (
        is_dataclass(kind)
        or (
            issubclass(kind, tuple)
            and hasattr(kind, "_fields")
            and not issubclass(kind, Parametric)
        )
    )


def records_in(hint):
    """The records that values of a type hint may hold, those inside other records included."""
    found, todo = set(), [hint]
    while todo:
        hint = todo.pop()
        if is_record(hint) and hint not in found:
            found.add(hint)
            hints = typing.get_type_hints(hint)
            names = [f.name for f in fields(hint)] if is_dataclass(hint) else hint._fields
            todo += [hints[name] for name in names]
        elif not isinstance(hint, type) or isinstance(hint, types.GenericAlias):
            todo += typing.get_args(hint)
    return found


def folds():
    """(name, hint) of what each fold constructor says of its state and result."""
    for module in modules():
        for name, value in vars(module).items():
            is_own = getattr(value, "__module__", "") == module.__name__
            if isinstance(value, types.FunctionType) and is_own:
                text = value.__annotations__.get("return")
                if isinstance(text, str) and text.startswith("Fold["):
                    yield f"{module.__name__}.{name}", eval(text, vars(module))


def test_every_state_and_result_of_a_fold_can_be_stored():
    found = list(folds())
    assert len(found) > 20
    missing = {
        f"{kind.__module__}:{kind.__qualname__} of {name}"
        for name, hint in found
        for kind in records_in(hint)
        if record_name(kind) is None
    }
    assert not missing, f"add to data/files/records.py: {missing}"


def test_what_a_record_holds_can_be_stored():
    missing = {
        f"{kind.__module__}:{kind.__qualname__} of {name}"
        for name in RECORDS
        for kind in records_in(record_class(name))
        if record_name(kind) is None
    }
    assert not missing, f"add to data/files/records.py: {missing}"


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_found_by_its_name_and_by_its_old_place(name):
    kind = record_class(name)
    assert is_record(kind)
    assert record_name(kind) == name
    old = RECORDS[name][1]
    if old is not None:
        assert record_class(f"streamlearn.{old}") is kind


def test_names_and_places_are_of_one_record_each():
    for places in zip(*RECORDS.values(), strict=True):
        given = [place for place in places if place is not None]
        assert len(set(given)) == len(given)


def test_nothing_else_has_a_name():
    for name in ("streamlearn.__main__:main", "subprocess:Popen", "Bases", "numpy.ndarray"):
        assert record_class(name) is None
    assert record_name(np.ndarray) is None


def value_of(hint):
    """Some value of an annotated type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return None if type(None) in inner else value_of(inner[0])
    if origin is tuple:
        return tuple(value_of(one) for one in inner if one is not Ellipsis)
    if is_record(hint):
        return record_of(hint)
    kind = origin or hint
    known = {float: 1.0, int: 1, bool: True, str: "x", np.ndarray: np.zeros(3), list: []}
    return {} if kind not in known else known[kind]


def record_of(kind, /, **damaged):
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else kind._fields
    hints = typing.get_type_hints(kind)
    return kind(**{name: value_of(hints[name]) for name in names} | damaged)


class Stranger:
    """A value that no record declares."""


def _hint(name, field):
    return typing.get_type_hints(record_class(name))[field]


FIELDS = [
    (name, field)
    for name in RECORDS
    for field, hint in typing.get_type_hints(record_class(name)).items()
    if hint is not typing.Any and hint is not typing.ClassVar
]


@pytest.mark.parametrize("name, field", FIELDS)
def test_a_field_of_another_type_is_refused(tmp_path, name, field):
    kind = record_class(name)
    check_types(record_of(kind))
    with pytest.raises(ValueError, match=f"{field} of a {kind.__name__} is a Stranger, expected"):
        check_types(record_of(kind, **{field: Stranger()}))
    write_archive(tmp_path / "a.slm", record_of(kind, **{field: {"a": ["b"]}}))
    expected = typing.get_origin(typing.get_type_hints(kind)[field])
    if expected not in (dict, collections.abc.Mapping):
        with pytest.raises(ArchiveError, match="holds what streamlearn never writes"):
            read_archive(tmp_path / "a.slm")


FLOATS = [(name, field) for name, field in FIELDS if _hint(name, field) is float]


@pytest.mark.parametrize("number", [3, True, np.int8(3), np.float32(3)], ids=repr)
@pytest.mark.parametrize("name, field", FLOATS)
def test_a_number_stands_as_the_float_that_is_declared(name, field, number):
    """A kernel would be compiled anew for another type: 70 MiB that no budget has."""
    value = with_floats(record_class(name), {field: number})[field]
    assert isinstance(value, float)
    assert value == number


def test_a_record_is_read_with_the_floats_that_it_declares(tmp_path):
    write_archive(tmp_path / "a.slm", record_of(record_class("pursuit.Term"), low=3))
    assert type(read_archive(tmp_path / "a.slm").low) is float


def test_a_whole_number_beyond_all_floats_is_refused():
    with pytest.raises(ValueError, match="low is a whole number beyond all floats"):
        with_floats(record_class("pursuit.Term"), {"low": 10**400})
