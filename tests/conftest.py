"""What every test run shares: a kernel cache of its own, the three flags, and where data may lie.

``--runslow`` and ``--runfault`` add the tests marked ``slow`` and ``fault``, ``--runlong`` what
those marked ``turns`` leave out; without the flag they are deselected, not skipped, so that a skip
always means something is missing here.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from quick import QUICK
from turns import left_out

ROOT = Path(__file__).resolve().parent.parent

# Kernels are compiled afresh in each test run (numba does not see an edit in an inlined callee) and
# once for all its subprocesses.  A folder that is already named is kept: .ci/run shares one.
if "numba" in sys.modules:
    raise RuntimeError("numba was imported before tests/conftest.py could name its cache folder")
_own_cache = None
if "NUMBA_CACHE_DIR" not in os.environ:
    _own_cache = tempfile.mkdtemp(prefix="streamlearn-test-numba-")
    os.environ["NUMBA_CACHE_DIR"] = _own_cache

# Subprocesses test this checkout too; settings of the person who runs the tests do not leak in.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
)
for _name in [n for n in os.environ if n.startswith("STREAMLEARN_") and n != "STREAMLEARN_DATA"]:
    del os.environ[_name]
os.environ.setdefault("MPLBACKEND", "Agg")


def pytest_addoption(parser):
    parser.addoption("--runslow", action="store_true", help="also run the tests marked slow")
    parser.addoption("--runfault", action="store_true", help="also run the tests marked fault")
    parser.addoption("--runlong", action="store_true", help="all members of walks that take turns")


def pytest_configure(config):
    from hypothesis import settings

    # One slow example on a loaded machine is no failure; a failing one must be found again.
    settings.register_profile("house", deadline=None, max_examples=25, derandomize=True)
    settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.path.relative_to(ROOT / "tests").as_posix() in QUICK:
            item.add_marker("quick")
    off = {mark for mark in ("slow", "fault") if not config.getoption(f"--run{mark}")}
    named = config.getoption("--runlong") or any("[" in argument for argument in config.args)
    others = set() if named else set(left_out(items))
    keep, drop = [], []
    for item in items:
        out = item in others or any(item.get_closest_marker(mark) for mark in off)
        (drop if out else keep).append(item)
    if drop:
        config.hook.pytest_deselected(items=drop)
        items[:] = keep


def pytest_unconfigure(config):
    if _own_cache is not None:
        shutil.rmtree(_own_cache, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_data():
    """``shared_data("mnist/train.parquet")``: that file's path, or a skip that says why."""

    def find(name):
        folder = Path(os.environ.get("STREAMLEARN_DATA", ROOT.parent / "shared" / "data"))
        path = folder / name
        if not path.exists():
            pytest.skip(f"no real data at {path}; set STREAMLEARN_DATA to its folder")
        return path

    return find
