"""Kernels are cached on disk by the hash of their sources; a second process compiles nothing."""

import ast
import os
import subprocess
import sys
import warnings

import numba
import pytest

from streamlearn.additive.basis import kernels_dense
from streamlearn.numeric import jit
from streamlearn.numeric.bases import bsplines

FIT = """
import numpy as np
from streamlearn.additive.basis import kernels as k
from streamlearn.additive.basis import kernels_dense
from streamlearn.numeric.bases.bsplines import make_bases
from streamlearn.numeric.losses import LogLoss
bases = make_bases([np.linspace(0, 1, 5)] * 2, [1, 1])
X = np.random.default_rng(0).random((50, 2))
sums = k.empty_sums(1, bases.dim)
point = k.make_point(np.zeros((1, bases.dim)), 0.0)
k.gradient_rows(X, bases, LogLoss(), point, np.ones(50), k.NONE, sums)
stats = getattr(kernels_dense.gradient, "stats", None)
print(float(sums.value[0]), stats and sum(stats.cache_hits.values()),
      stats and sum(stats.cache_misses.values()))
"""


def clear():
    jit.cache_folder.cache_clear()
    jit._warn_once.cache_clear()


def run(**environment):
    environment = {**os.environ, **environment}
    command = [sys.executable, "-c", FIT]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    return result


def test_config_is_restored():
    before = numba.config.CACHE_DIR
    jit.kernel(lambda x: x)
    assert numba.config.CACHE_DIR == before


def test_hash_covers_every_kernel_file_of_the_shared_rooms_and_the_own():
    paths = {path.relative_to(jit.PACKAGE).as_posix() for path in jit.kernel_files("additive")}
    shared = {
        "numeric/losses.py",
        "numeric/bases/bsplines.py",
        "numeric/rows/tiles.py",
        "passes/summary/counts/kernels.py",
        "data/parquet/pages/kernels.py",
    }
    assert shared | {"additive/dual/kernels_epoch.py"} <= paths
    assert {path.relative_to(jit.PACKAGE).parts[0] for path in jit.kernel_files("shared")} <= set(
        jit.SHARED
    )


def test_room_of_a_kernel():
    def plain(kernel):
        return getattr(kernel, "py_func", kernel)

    assert jit.room_of(plain(kernels_dense.gradient)) == "additive"
    assert jit.room_of(plain(bsplines.coordinate_column)) == "shared"
    assert jit.room_of(lambda x: x) == "shared"


def test_kernels_lie_in_rooms_whose_files_are_hashed():
    """A kernel outside `numeric` and ``kernels*.py`` would run an old version after an edit."""
    marks = ("@kernel", "@sum_kernel", "@inlined")
    holders = [
        path
        for path in jit.PACKAGE.rglob("*.py")
        if any(line.startswith(marks) for line in path.read_text().splitlines())
    ]
    assert holders
    for path in holders:
        assert path in jit.kernel_files(path.relative_to(jit.PACKAGE).parts[0]), path


def test_folder_that_cannot_be_made_warns_once(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(blocked))
    clear()
    try:
        with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
            assert jit.cache_folder() is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert jit.cache_folder() is None
            assert jit.kernel(lambda x: x + 1)(1) == 2
    finally:
        clear()


@pytest.mark.slow
def test_second_process_has_hits_only(tmp_path):
    first = run(NUMBA_CACHE_DIR=str(tmp_path)).stdout.split()
    second = run(NUMBA_CACHE_DIR=str(tmp_path)).stdout.split()
    assert first[1:] == ["0", "1"]
    assert second[1:] == ["1", "0"]
    assert first[0] == second[0]


@pytest.mark.slow
def test_without_jit(tmp_path):
    plain = run(NUMBA_DISABLE_JIT="1").stdout.split()
    compiled = run(NUMBA_CACHE_DIR=str(tmp_path)).stdout.split()
    assert float(plain[0]) == pytest.approx(float(compiled[0]), rel=1e-14)


@pytest.mark.slow
def test_read_only_home(tmp_path):
    blocked = tmp_path / "home"
    blocked.write_text("not a folder")
    environment = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": str(blocked)}
    result = run(**environment)
    assert result.stderr.count("UserWarning") == 1
    assert "compiled kernels cannot be kept" in result.stderr


def test_two_processes_that_write_one_cache_never_swap_their_kernels(tmp_path, monkeypatch):
    """Two processes read the same index before either has written its form."""
    first, second = (jit.FilesByKey(str(tmp_path), "f", 0.0) for _ in range(2))

    def second_comes_between(overloads):
        monkeypatch.undo()
        second.save("b", "code of b")
        first._save_index(overloads)

    monkeypatch.setattr(first, "_save_index", second_comes_between)
    first.save("a", "code of a")
    for file in (first, second):
        assert file.load("a") in ("code of a", None)
        assert file.load("b") in ("code of b", None)
    second.save("b", "code of b")
    assert (first.load("a"), first.load("b")) == ("code of a", "code of b")


def test_kernels_are_cached_by_key():
    compiled = jit.kernel(lambda x: x + 1)
    if jit.config.DISABLE_JIT:
        pytest.skip("nothing is compiled")
    assert isinstance(compiled._cache._cache_file, jit.FilesByKey)


def test_no_kernel_is_a_closure_of_another_function():
    """Closures of one function share one name: code from the cache would be linked for another's.

    Functions that numba calls for types are the exception: the types are part of the name.
    """
    makers = {"kernel", "sum_kernel", "inlined", "register_jitable"}

    def name(node):
        node = node.func if isinstance(node, ast.Call) else node
        return node.id if isinstance(node, ast.Name) else None

    found = []
    for path in jit.PACKAGE.rglob("*.py"):
        for outer in ast.walk(ast.parse(path.read_text())):
            if not isinstance(outer, ast.FunctionDef) or path.name == "jit.py":
                continue
            if any(name(d) in ("overload", "intrinsic") for d in outer.decorator_list):
                continue
            for inner in ast.walk(outer):
                marks = getattr(inner, "decorator_list", []) if inner is not outer else []
                if isinstance(inner, ast.Call):
                    marks = [inner]
                found += [f"{path.name}:{m.lineno}" for m in marks if name(m) in makers]
    assert not found
