"""The examples in the docstrings print what they say, and every public name has one."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import streamlearn as sl

PACKAGE = Path(__file__).resolve().parent.parent / "streamlearn"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text())

NAMES = sorted(set(sl.__all__) - {"__version__"})
NEEDS_NONE = sorted(name for name in NAMES if name.endswith(("Display", "Error")))
"""Pictures and errors: what they show is no number; a sentence documents them."""

OPTIONAL = {"export/onnx_file.py": "onnxruntime"}
"""Files whose examples need a library that not every installation has."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_doctests(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if library := OPTIONAL.get(path.relative_to(PACKAGE).as_posix()):
        pytest.importorskip(library, reason=f"{library} is not installed")
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert result.attempted
    assert not result.failed, "see the output above"


def shows_a_number(name):
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(getattr(sl, name)) or "")
    return any(any(map(str.isdigit, example.want)) for example in examples)


def test_every_public_name_shows_a_number():
    missing = {name for name in NAMES if not shows_a_number(name)} - set(NEEDS_NONE)
    assert not missing


def parameters_not_named(name):
    """Parameters of a public name that stand nowhere in its docstring."""
    value = getattr(sl, name)
    text = inspect.getdoc(value)
    return {p for p in inspect.signature(value).parameters if p not in text}


def test_every_public_name_is_documented():
    for name in NAMES:
        text = inspect.getdoc(getattr(sl, name)) or ""
        summary = text.partition("\n\n")[0]
        assert len(summary) > 10, f"{name}: no summary"
        assert summary.rstrip().endswith("."), f"{name}: its summary is no sentence"
    documented = set(NAMES) - {*NEEDS_NONE, "Certificate", "Dataset"}  # users make none of these
    missing = {name: lacks for name in documented if (lacks := parameters_not_named(name))}
    assert not missing
