"""`open_dataset`: which store a source is.  Each store's library is loaded when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import SourceError
from .dataset import Dataset
from .files.remote import CHECK_KEYS, as_os_errors, filesystem, is_url
from .store import Store

_ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray")


def open_dataset(
    source: Any,
    *,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    filters: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    chunk_rows: int | None = None,
) -> Dataset:
    """A lazy dataset of rows that may not fit in memory; reads metadata only.

    Parameters
    ----------
    source : path, URL, glob, list, or collection
        Parquet files, or a folder of them, also hive-partitioned (``year=2024/``).  A zarr
        array, or group (``X``, `target`, `weight`; AnnData's too).  A dask array or dataframe,
        numpy array or memory map, scipy.sparse, pandas, polars, pyarrow table or Arrow stream.
    target, weight : str, optional
        The columns (arrays, in zarr) of targets and sample weights.
    features : sequence of str, optional
        Columns to learn from, in this order; all others by default.  Only these are read.
    filters : list of tuples, list of such lists, or pyarrow expression, optional
        Parquet only: ``[("x", ">", 0)]``.  Row groups are ruled out by their statistics.
    storage_options : dict, optional
        Given to fsspec with a URL.
    chunk_rows : int, optional
        Rows read at a time; by default as many as decode to at most 16 MiB.

    Returns
    -------
    Dataset

    Raises
    ------
    SourceError
        No such path, no rows, missing or doubled columns, columns that are not numbers, files that
        differ in their columns.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn.data.open import open_dataset
    >>> open_dataset(np.zeros((3, 2))).n_rows
    3
    """
    if isinstance(source, Dataset):
        raise SourceError("already a Dataset: choose rows and columns by its methods")
    store = _open_store(source, target, weight, features, filters, storage_options)
    if store.n_rows == 0:
        raise SourceError(f"no rows in {_say(source)}; check the path and how it was written")
    if store.kind == "zarr" and isinstance(features, str):
        features = None  # it named the array to use as X; of that, all columns
    target = store.default_target if target is None else target
    weight = store.default_weight if weight is None else weight
    return dataset_of(store, target, weight, features, chunk_rows)


def dataset_of(
    store: Store,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    chunk_rows: int | None = None,
) -> Dataset:
    """The dataset of a store; without `features`, of all columns but the target and the weight."""
    if isinstance(features, str):
        raise SourceError(f"features={features!r} is one string; pass a list of column names")
    if features is None:
        names = [column.name for column in store.columns]
        features = [name for name in names if name not in (target, weight)]
    return Dataset(store, tuple(features), target, weight, chunk_rows)


def _open_store(
    source: Any,
    target: str | None,
    weight: str | None,
    features: Sequence[str] | None,
    filters: Any,
    storage_options: Mapping[str, Any] | None,
) -> Store:
    paths = isinstance(source, str | os.PathLike) or (
        isinstance(source, list | tuple)
        and len(source) > 0
        and all(isinstance(one, str | os.PathLike) for one in source)
    )
    if paths and not _is_zarr(source, storage_options):
        from .parquet.store import open_parquet

        return open_parquet(source, filters, storage_options)
    if filters is not None:
        raise SourceError(f"filters are for parquet files, not for {_say(source)}")
    if paths or _comes_from(source, "zarr"):
        from .zarr.opening import open_zarr

        return open_zarr(source, storage_options, target, weight, features)
    if _comes_from(source, "dask") or (
        isinstance(source, list | tuple) and any(_comes_from(one, "dask") for one in source)
    ):
        from .dask.store import open_dask

        return open_dask(source)
    from .memory.opening import open_arrays

    return open_arrays(source)


def _is_zarr(source: Any, storage_options: Mapping[str, Any] | None) -> bool:
    """By the name, or by the marks zarr leaves in a folder."""
    if not isinstance(source, str | os.PathLike):
        return False
    path = os.fspath(source)
    if ".zarr" in path.lower():
        return True
    if any(mark in path for mark in "*?[") or path.lower().endswith((".parquet", ".pq", ".parq")):
        return False
    if is_url(path):
        fs, inside = filesystem(path, storage_options)
        try:
            with as_os_errors():
                return any(fs.exists(f"{inside}/{mark}") for mark in _ZARR_MARKS)
        except OSError as error:
            raise SourceError(f"cannot look into {path!r}: {error}; {CHECK_KEYS}") from error
    return any(os.path.exists(os.path.join(path, mark)) for mark in _ZARR_MARKS)


def _comes_from(source: Any, package: str) -> bool:
    return any(
        kind.__module__.split(".")[0] in (package, f"{package}_expr")
        for kind in type(source).__mro__
    )


def _say(source: Any) -> str:
    text = os.fspath(source) if isinstance(source, os.PathLike) else source
    return repr(text) if isinstance(text, str) else f"a {type(source).__name__}"
