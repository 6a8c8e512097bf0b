"""Arrays at aligned addresses."""

import pickle

import numpy as np

from streamlearn.engine.aligned import ALIGNED_NBYTES, aligned
from streamlearn.engine.lanes import Job
from streamlearn.passes.fold import Fold


def place(values, offset):
    """A copy that begins `offset` bytes after an aligned address."""
    buffer = np.zeros(values.nbytes + 2 * ALIGNED_NBYTES, np.uint8)
    start = -buffer.ctypes.data % ALIGNED_NBYTES + offset
    view = buffer[start : start + values.nbytes]
    view[:] = values.view(np.uint8)
    return view.view(values.dtype)


def address(values):
    return values.ctypes.data % ALIGNED_NBYTES


def test_aligned_values_are_left_alone():
    value = {"a": place(np.arange(3.0), 0), "b": "text"}
    assert aligned(value) is value


def test_others_are_moved_and_can_be_written():
    value = {"a": place(np.arange(3.0), 1), "b": (place(np.arange(4), 0), "text")}
    moved = aligned(value)
    assert address(value["a"]) == 1
    assert address(moved["a"]) == address(moved["b"][0]) == 0
    np.testing.assert_array_equal(moved["a"], np.arange(3.0))
    moved["a"][:] = 1.0
    assert moved["b"][1] == "text"


def test_a_job_holds_its_arrays_in_one_piece():
    """A cluster could place the arrays of a pickle in several pieces anywhere."""
    values = np.arange(1000.0)
    job = Job("name", values, Fold(dict, max, max))
    buffers = []
    content = pickle.dumps(job, protocol=5, buffer_callback=buffers.append)
    assert not buffers
    received = pickle.loads(content)
    assert address(received.source) == 0
    np.testing.assert_array_equal(received.source, values)
    assert (received.name, received.fold, received.slots) == (job.name, job.fold, None)
