"""The public names: lazy, complete, quick to import."""

import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import streamlearn as sl


def test_every_public_name_loads():
    for name in sl.__all__:
        assert getattr(sl, name) is not None
    assert set(sl.__all__) <= set(dir(sl))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        sl.nonsense  # noqa: B018


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_loads_no_other_package():
    code = (
        "import sys, json; before = set(sys.modules); import streamlearn;"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    assert set(json.loads(run(code))) <= {"streamlearn", *sys.stdlib_module_names}


def test_no_module_has_the_name_of_a_public_function():
    """Importing ``streamlearn.name`` would bind the module where the function was."""
    modules = {path.stem for path in Path(sl.__file__).parent.iterdir()}
    assert not modules & set(sl.__all__)


def test_version_is_the_packages():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    assert project["project"]["version"] == sl.__version__


def test_the_wheel_holds_the_mark_of_types():
    """py.typed is what tells type checkers to read our hints."""
    files = [file.as_posix() for file in metadata.files("streamlearn") or ()]
    if "streamlearn/__init__.py" not in files:
        pytest.skip("installed in place, if at all: only an installed wheel lists its files")
    assert "streamlearn/py.typed" in files
