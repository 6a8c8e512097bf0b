"""Holding BLAS to one thread, task after task."""

import sys
import types

import threadpoolctl

from streamlearn.engine.blas import one_blas_thread


def n_threads():
    info = threadpoolctl.threadpool_info()
    return {library["num_threads"] for library in info if library["user_api"] == "blas"}


def test_libraries_are_looked_for_once_and_again_when_there_may_be_more(monkeypatch):
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
        assert not looked
        patch.setitem(sys.modules, "a_library_loaded_later", types.ModuleType("later"))
        with one_blas_thread():
            assert len(looked) == 1
    with one_blas_thread():
        assert n_threads() == {1}
    assert n_threads() == before
