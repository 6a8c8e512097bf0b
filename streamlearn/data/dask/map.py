"""A function of each partition of a dask collection, lazily."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .store import open_collection

if TYPE_CHECKING:
    import dask.array as da
    from dask.typing import DaskCollection as DaskCollection

    DaskArray: TypeAlias = da.Array


def map_rows(
    collection: object, function: Callable[..., np.ndarray], shared: object, like: np.ndarray
) -> DaskArray:
    """The lazy dask array of ``function(block, shared)`` for each block of rows.

    Parameters
    ----------
    collection : dask array, dataframe, bag or list of Delayed
    function : callable
        Module-level; gives one row of answers for each row of a block.
    shared : object
        One key of the graph, which dask moves to each worker once, not a part of every task.
    like : array without rows
        The answer's dtype and width.

    Returns
    -------
    dask array
        A chunk for each partition; of unknown lengths if the collection's are.
    """
    import dask.array as da
    from dask import delayed

    _, blocks, known, *_ = open_collection(collection)
    lengths = [np.nan] * len(blocks) if known is None else known
    value, task = delayed(shared, traverse=False), delayed(function)
    return da.concatenate(
        [
            da.from_delayed(task(block, value), shape=(n, *like.shape[1:]), meta=like)
            for block, n in zip(blocks, lengths, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )
