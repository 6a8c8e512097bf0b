"""Zeros in large pages are zeros, of no more memory than is said."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from streamlearn.numeric.huge_pages import LARGE, resident, zeros


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("n", [0, 1, 50, 70])
def test_zeros_are_ordinary_arrays(n, dtype, rounded):
    x = zeros((n, 64, 64, 2), dtype, rounded=rounded)
    assert x.shape == (n, 64, 64, 2)
    assert x.dtype == dtype
    assert not x.any()
    assert x.flags.c_contiguous
    assert x.flags.writeable
    assert x.flags.aligned
    x += 1
    assert x.sum() == x.size
    assert x.nbytes <= resident(x.nbytes) < x.nbytes + LARGE / 2 + 1


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="asks Linux what is resident")
@pytest.mark.parametrize(("rounded", "most"), [(False, 3.75), (True, 4.0)])
def test_no_more_is_resident(rounded, most):
    x = zeros((3_932_160 // 8,), rounded=rounded)  # 3.75 MiB
    x[:] = 1
    assert resident_mib(x) <= most


def resident_mib(x):
    """MiB of the mapping that holds the array."""
    at, found = x.ctypes.data, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if "-" in head and not head.endswith(":"):
            begin, end = (int(part, 16) for part in head.split("-"))
            found = begin <= at < end
        elif found and head == "Rss:":
            return int(line.split()[1]) / 1024
    raise LookupError(hex(at))


def test_a_system_without_large_pages_gives_small_ones(monkeypatch):
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert not zeros((1 << 20,)).any()
