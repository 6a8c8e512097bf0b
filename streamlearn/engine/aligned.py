"""Arrays at aligned addresses, whatever they came through.

A cluster hands out arrays as views of messages and of spilled files, at any address.  There
numpy's products take other paths, whose results have other bits, and numba compiles anew.
"""

from __future__ import annotations

import pickle
from typing import TypeVar

import numpy as np

ALIGNED_NBYTES = 16
"""Alignment in bytes of what malloc returns."""

Value = TypeVar("Value")


def aligned(value: Value) -> Value:
    """`value` itself, or an equal one whose arrays were moved to aligned addresses.

    Costs a pickle without its arrays; these are copied if one of them is not aligned.
    """
    import cloudpickle

    buffers: list[pickle.PickleBuffer] = []
    content = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    if all(_is_aligned(buffer) for buffer in buffers):
        return value
    # bytearray: arrays that may be written, as kernels were compiled for
    moved: Value = pickle.loads(content, buffers=[bytearray(buffer.raw()) for buffer in buffers])
    return moved


def _is_aligned(buffer: pickle.PickleBuffer) -> bool:
    raw = buffer.raw()
    return not raw.nbytes or np.frombuffer(raw, np.uint8).ctypes.data % ALIGNED_NBYTES == 0


def in_one_piece(value: object) -> bytes:
    """A pickle that holds the arrays too: `pickle.loads` makes them anew, aligned."""
    import cloudpickle

    content: bytes = cloudpickle.dumps(value, protocol=5)
    return content
