"""Natural units (row groups, storage chunks) cut and joined into the runs of rows that are read.

Functions of the data alone: the runs decide the order of sums, so memory or threads may not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

SLICE_BYTES = 16 << 20
GROUP_BYTES = 8 << 20


def largest_slice(row_nbytes: float) -> int:
    """Rows of the largest run: the power of two that decodes to at most 16 MiB."""
    return 1 << max(int(SLICE_BYTES / max(row_nbytes, 1.0)).bit_length() - 1, 0)


def cut_runs(
    starts: np.ndarray, live: np.ndarray, slice_rows: int, row_nbytes: float
) -> Iterator[tuple[int, int]]:
    """Units cut or joined into runs: slices of `slice_rows` rows, small neighbours up to 8 MiB.

    Units that are not live are left out.
    """
    begin = end = 0  # the run of small units being joined
    for a, b, lives in zip(starts[:-1].tolist(), starts[1:].tolist(), live.tolist(), strict=True):
        if begin < end and (not lives or a != end or b - begin > slice_rows):
            yield begin, end
            begin = end
        if not lives:
            begin = end = b
        elif b - a > slice_rows:
            for cut in range(a, b, slice_rows):
                yield cut, min(cut + slice_rows, b)
            begin = end = b
        else:
            begin, end = (begin, b) if begin < end else (a, b)
            if (end - begin) * row_nbytes >= GROUP_BYTES:
                yield begin, end
                begin = end
    if begin < end:
        yield begin, end
