"""Holding BLAS to one thread, task after task."""

import ctypes
import shutil
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import threadpoolctl
from numba import mviewbuf

from streamlearn.engine.blas import one_blas_thread


def n_threads():
    info = threadpoolctl.threadpool_info()
    return {library["num_threads"] for library in info if library["user_api"] == "blas"}


def copy_of_a_library(folder):
    """A shared object that no process has loaded yet."""
    return shutil.copy(mviewbuf.__file__, folder / "loaded_later.so")


def test_libraries_are_looked_for_once_and_again_when_there_may_be_more(monkeypatch, tmp_path):
    n_threads()
    with one_blas_thread():
        pass
    looked = []

    class Counting(threadpoolctl.ThreadpoolController):
        def __init__(self):
            looked.append(self)
            super().__init__()

    before = n_threads()
    with monkeypatch.context() as patch:
        patch.setattr(threadpoolctl, "ThreadpoolController", Counting)
        for _ in range(3):
            with one_blas_thread(), one_blas_thread():
                pass
            patch.setitem(sys.modules, "a_module_of_python", types.ModuleType("module"))
        assert not looked
        ctypes.CDLL(copy_of_a_library(tmp_path))
        with one_blas_thread():
            assert len(looked) == 1
    with one_blas_thread():
        assert n_threads() == {1}
    assert n_threads() == before


def test_every_thread_holds_it_whoever_was_first_and_leaves_first():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        with ThreadPoolExecutor(1) as a, ThreadPoolExecutor(1) as b, ExitStack() as first:
            a.submit(first.enter_context, one_blas_thread()).result()
            second = ExitStack()
            b.submit(second.enter_context, one_blas_thread()).result()
            a.submit(first.close).result()
            assert n_threads() == {1}
            b.submit(second.close).result()
            assert n_threads() == {2}
            for pool in (b, a):
                with ExitStack() as stack:
                    pool.submit(stack.enter_context, one_blas_thread()).result()
                    assert n_threads() == {1}
                assert n_threads() == {2}
