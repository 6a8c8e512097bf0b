"""Checks of a file's arrays before a kernel indexes with them: type, shape, range, order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def check_array(
    name: str,
    value: object,
    shape: Sequence[int | None],
    dtype: str = "float64",
    *,
    low: float = -np.inf,
    high: float = np.inf,
    finite: bool = True,
) -> None:
    """Raise ValueError unless `value` is an array of this shape and dtype within [low, high].

    Parameters
    ----------
    shape : sequence of int or None
        None: any length.
    dtype : str
        "integer" and "floating" stand for those of any width.
    finite : bool
        False: NaN and infinities are left to the caller.
    """
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{name} is a {type(value).__name__}, expected an array")
    if len(shape) != value.ndim or any(
        n is not None and n != m for n, m in zip(shape, value.shape, strict=True)
    ):
        raise ValueError(f"{name} has the shape {value.shape}, expected {tuple(shape)}")
    any_width = {"integer": np.signedinteger, "floating": np.floating}
    wanted = any_width[dtype] if dtype in any_width else np.dtype(dtype).type
    if not np.issubdtype(value.dtype, wanted):
        raise ValueError(f"{name} is of dtype {value.dtype}, expected {dtype}")
    if not value.dtype.isnative:
        raise ValueError(f"{name} is of dtype {value.dtype.str}, in another byte order")
    if finite and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise ValueError(f"{name} holds numbers that are not finite")
    is_bounded = np.isfinite(low) or np.isfinite(high)
    if is_bounded and value.size and not (value.min() >= low and value.max() <= high):
        raise ValueError(
            f"{name} holds {value.min()} to {value.max()}, expected {low:g} to {high:g}"
        )


def check_offsets(name: str, value: np.ndarray, n: int, end: int) -> None:
    """Raise ValueError unless `value` (n + 1,) intp rises from 0 to `end`."""
    check_array(name, value, (n + 1,), "intp")
    if value[0] != 0 or value[-1] != end or (np.diff(value) < 0).any():
        raise ValueError(f"{name} must not fall, from 0 to {end}; it begins {value[:4].tolist()}")


def check_number(name: str, value: object, low: float = -np.inf, high: float = np.inf) -> None:
    """Raise ValueError unless `value` is a finite number within [low, high]."""
    if (
        not isinstance(value, int | float | np.integer | np.floating)
        or isinstance(value, bool)
        or not (np.isfinite(value) and low <= value <= high)
    ):
        raise ValueError(f"{name} is {value!r}, expected a number from {low:g} to {high:g}")


def check_integer(name: str, value: object, low: int, high: int) -> None:
    """Raise ValueError unless `value` is an integer within [low, high]."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}, expected an integer from {low} to {high}")


def check_records(name: str, values: object, kind: type | tuple[type, ...]) -> None:
    """Raise ValueError unless `values` is a list or tuple of such records."""
    if not isinstance(values, list | tuple) or not all(isinstance(v, kind) for v in values):
        raise ValueError(f"{name} holds other things than it should")
