"""`open_dataset`: which store a source is.  Each store's library is loaded when it is asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import SourceError
from .dataset import Dataset
from .files.remote import CHECK_KEYS, as_os_errors, filesystem, is_url
from .store import Store

_INDEX = re.compile(r"__index_level_\d+__")
_ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray")


@dataclass(frozen=True)
class Request:
    """The arguments of one call of `open_dataset`, as each store takes them."""

    source: Any
    target: str | None = None
    weight: str | None = None
    features: Sequence[str] | str | None = None
    filters: object = None
    storage_options: Mapping[str, object] | None = None
    missing_chunks: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths or URLs, if the source is one of them or a list of them; else empty."""
        given = self.source if isinstance(self.source, list | tuple) else [self.source]
        if not all(isinstance(one, str | os.PathLike) for one in given):
            return ()
        return tuple(os.fspath(one) for one in given)

    def comes_from(self, package: str) -> bool:
        """Whether the source's class, or one that it derives from, is defined in this package."""
        return _comes_from(self.source, package)


@dataclass(frozen=True)
class Format:
    """One kind of store: which sources are of it, and how they are opened."""

    name: str
    opens: Callable[[Request], bool]
    """Whether a source is of this kind; cheap, and told without loading the format's library."""
    open: Callable[[Request], Store]
    filters: bool = False
    """Whether the store takes ``filters``."""


FORMATS: list[Format] = []
"""Every kind of store in the order in which they are asked; the first that opens a source does."""


def register_store(
    name: str,
    opens: Callable[[Request], bool],
    open: Callable[[Request], Store],
    *,
    filters: bool = False,
) -> None:
    """Let `open_dataset` open a new kind of source; it is asked before those of this package.

    Parameters
    ----------
    name : str
        The format's name.  One of the same name is replaced.
    opens : callable
        `Request` -> whether the source is of this kind.
    open : callable
        `Request` -> `Store`.
    filters : bool
        Whether the store takes ``filters``.

    Examples
    --------
    >>> from streamlearn.data.memory.opening import open_arrays
    >>> from streamlearn.data.open import FORMATS, open_dataset, register_store
    >>> register_store("squares", lambda request: request.source == "squares",
    ...                lambda request: open_arrays([[n, n * n] for n in range(5)]))
    >>> open_dataset("squares").n_rows
    5
    >>> FORMATS.pop(0).name
    'squares'
    """
    FORMATS[:] = [one for one in FORMATS if one.name != name]
    FORMATS.insert(0, Format(name, opens, open, filters))


def open_dataset(
    source: object,
    *,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    filters: object = None,
    storage_options: Mapping[str, object] | None = None,
    chunk_rows: int | None = None,
    missing_chunks: Literal["fill", "error"] | None = None,
) -> Dataset:
    """A lazy dataset of rows that may not fit in memory; reads metadata only.

    Parameters
    ----------
    source : path, URL, glob, list, collection or Store
        Parquet files, or a folder of them, also hive-partitioned (``year=2024/``).  A zarr
        array, or group (``X``, `target`, `weight`; AnnData's too).  A dask array or dataframe,
        numpy array or memory map, scipy.sparse, dict of arrays, pandas, polars, pyarrow table or
        dataset, Arrow stream.
        An instance of your own `Store`, or what `register_store` made known.
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
    missing_chunks : {"fill", "error"}, optional
        Zarr only: chunks (of a sharded array, shards) that are not stored are read as the fill
        value, as zarr does, or refused.  Default: refused if the store is still being written, for
        then they are not empty but to come.  That is so if all chunks of the last rows of features
        are missing, or one is and a half-written file of zarr's (``.partial``) lies there; else
        "fill".  `Dataset.n_missing_chunks` and the summary tell how many there are.

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
    for role, name in (("target", target), ("weight", weight)):
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"{role} is the name of a column, got {type(name).__name__}; put the values into "
                "the table, such as a dict of arrays, or give fit arrays X, y, sample_weight"
            )
    if missing_chunks not in (None, "fill", "error"):
        raise ValueError(f"missing_chunks={missing_chunks!r}; it is 'fill', 'error' or None")
    request = Request(source, target, weight, features, filters, storage_options, missing_chunks)
    store = source if isinstance(source, Store) else _open_store(request)
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
    """The dataset of a store; without `features`, of all columns but the target and the weight.

    Nor of the numbers of rows that pandas writes into files where its index has no name.
    """
    if isinstance(features, str):
        raise SourceError(f"features={features!r} is one string; pass a list of column names")
    if features is None:
        names = [column.name for column in store.columns]
        left_out = {target, weight, *filter(_INDEX.fullmatch, names)}
        features = [name for name in names if name not in left_out]
    return Dataset(store, tuple(features), target, weight, chunk_rows)


def _open_store(request: Request) -> Store:
    """The store of the first format that opens the source."""
    found = next(one for one in FORMATS if one.opens(request))
    if request.filters is not None and not found.filters:
        raise SourceError(f"filters are for parquet files, not for {_say(request.source)}")
    if request.missing_chunks is not None and found.name != "zarr":
        raise SourceError(f"missing_chunks is for zarr stores, not for {_say(request.source)}")
    return found.open(request)


# The formats of this package.  `opens` stands here, where it costs no import of a library.


def _is_parquet(request: Request) -> bool:
    return bool(request.paths) and not _is_zarr_path(request)


def _is_zarr(request: Request) -> bool:
    return bool(request.paths) or request.comes_from("zarr")


def _is_dask(request: Request) -> bool:
    source = request.source
    many = source if isinstance(source, list | tuple) else ()
    return request.comes_from("dask") or any(_comes_from(one, "dask") for one in many)


def _is_zarr_path(request: Request) -> bool:
    """Whether the path is a zarr store, by its name or by the files that zarr leaves in it."""
    if isinstance(request.source, list | tuple):
        return False
    [path] = request.paths
    if ".zarr" in path.lower():
        return True
    if any(mark in path for mark in "*?[") or path.lower().endswith((".parquet", ".pq", ".parq")):
        return False
    if is_url(path):
        fs, inside = filesystem(path, request.storage_options)
        try:
            with as_os_errors():
                return any(fs.exists(f"{inside}/{mark}") for mark in _ZARR_MARKS)
        except OSError as error:
            raise SourceError(f"cannot look into {path!r}: {error}; {CHECK_KEYS}") from error
    return any(os.path.exists(os.path.join(path, mark)) for mark in _ZARR_MARKS)


def _open_parquet(request: Request) -> Store:
    from .parquet.store import open_parquet

    return open_parquet(request.source, request.filters, request.storage_options)


def _open_zarr(request: Request) -> Store:
    from .zarr.opening import open_zarr

    named = request.target, request.weight, request.features, request.missing_chunks
    return open_zarr(request.source, request.storage_options, *named)


def _open_dask(request: Request) -> Store:
    from .dask.store import open_dask

    return open_dask(request.source)


def _open_arrays(request: Request) -> Store:
    from .memory.opening import open_arrays

    return open_arrays(request.source)


FORMATS += [
    Format("parquet", _is_parquet, _open_parquet, filters=True),
    Format("zarr", _is_zarr, _open_zarr),
    Format("dask", _is_dask, _open_dask),
    Format("array", lambda request: True, _open_arrays),
]


def _comes_from(source: object, package: str) -> bool:
    return any(
        kind.__module__.split(".")[0] in (package, f"{package}_expr")
        for kind in type(source).__mro__
    )


def _say(source: object) -> str:
    text = os.fspath(source) if isinstance(source, os.PathLike) else source
    return repr(text) if isinstance(text, str) else f"a {type(source).__name__}"
