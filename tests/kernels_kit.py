"""The kernels that read bytes of files, and all of them as plain Python at once."""

import contextlib
import importlib

import pytest

from streamlearn.numeric.jit import PACKAGE


def byte_modules():
    """The modules of kernels that are given bytes of files: those of the stores."""
    paths = sorted((PACKAGE / "data").rglob("kernels*.py"))
    return [
        importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        for path in paths
    ]


def byte_kernels():
    """Name -> (module, its own name) of each kernel; none without the compiler."""
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": (module, name)
        for module in byte_modules()
        for name, value in vars(module).items()
        if hasattr(value, "py_func") and value.py_func.__module__ == module.__name__
    }


@contextlib.contextmanager
def as_python():
    """Every such kernel is its Python function, also where another one calls it.

    Python refuses what compiled code would read or write beyond an array's end.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in byte_modules():
            for name, value in list(vars(module).items()):
                if hasattr(value, "py_func"):
                    patch.setattr(module, name, value.py_func)
        yield
