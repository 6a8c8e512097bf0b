"""dask arrays, dataframes, bags, lists of delayed blocks: partitions that others compute.

How the engine uses a `DaskStore`: before anything is planned it writes the collection to scratch
once, a task a partition.  ``store.partitions[i]`` is a Delayed that gives a `Block`, an argument of
that task, so that the block arrives as a dependency and nothing is computed inside a task.  Inside,
``partition_store(block, names)`` is an ordinary in-memory store, to be read in slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from ...errors import SourceError
from ..column_types import column_type, is_plain
from ..columns import check_shape
from ..memory.opening import as_store, as_vector, raveled
from ..store import Column, Reader, Store, numbered_columns
from .reader import Block, DaskReader, Known, describe_block, describe_vector

if TYPE_CHECKING:
    import dask.dataframe as dd
    from dask.delayed import Delayed


LENGTHS = {
    "dask.array": "X.compute_chunk_sizes() finds them",
    "dask.dataframe": "X.to_dask_array(lengths=True) is an array that knows them",
}
"""Kind of a collection whose lengths may be unknown -> how they become known; none of others."""
BESIDE = {
    "dask.array": "a dask array that is cut like X",
    "dask.dataframe": "the name of a column of X, or a series made of X's columns",
}
"""Kind of a collection -> what gives a value for each of its rows, whatever their number."""
A_BLOCK_EACH = "a list of Delayed, one for each block of X"


class DaskStore(Store):
    """Partitions of a dask collection, none of them computed."""

    def __init__(
        self,
        kind: str,
        partitions: Sequence[Delayed],
        known: Sequence[int] | None,
        columns: Sequence[Column],
        identity: Sequence[str],
        *,
        sparse: bool = False,
    ) -> None:
        self.kind, self.partitions, self.sparse = kind, tuple(partitions), sparse
        self.columns, self.identity = tuple(columns), tuple(identity)
        self.known = None if known is None else tuple(int(n) for n in known)
        """Rows of every partition; None if dask does not know them."""
        self.n_rows = None if self.known is None else sum(self.known)  # type: ignore[assignment]

    def _lengths(self) -> tuple[int, ...]:
        if self.known is None:
            raise SourceError(
                f"the {self.kind} does not know the lengths of its partitions before a first pass; "
                f"{LENGTHS.get(self.kind, 'pass a dask array of known chunks')}"
            )
        return self.known

    def boundaries(self) -> np.ndarray:
        return np.unique(np.cumsum([0, *self._lengths()], dtype=np.int64))

    def overhead_nbytes(self, names: Sequence[str], slice_rows: int) -> int:
        """The largest partition as it lies in memory; 0 while the lengths are unknown."""
        dtypes = [column.dtype for column in self.columns]
        sizes = [np.dtype(d).itemsize if d[0] in "biuf" else 16 for d in dtypes]
        return max(self.known or (0,)) * sum(sizes)

    def stored_nbytes(self, names: Sequence[str]) -> int:
        return 0

    def open(
        self, names: Sequence[str], target: str | None, weight: str | None, dtype: np.dtype
    ) -> Reader:
        """Computes one partition at a time: for the driver only, never inside a task."""
        names_of_all = [column.name for column in self.columns]
        known = Known(self.kind, self.partitions, self._lengths(), names_of_all, self.levels)
        return DaskReader(known, names, target, weight, np.dtype(dtype))

    def place(self, start: int, stop: int) -> str:
        if self.known is None:
            return f"{self.kind}, rows {start} to {stop}"
        starts = np.cumsum([0, *self.known])
        first = int(np.searchsorted(starts, start, side="right")) - 1
        last = max(first, int(np.searchsorted(starts, stop, side="left")) - 1)
        which = f"partition {first}" if first == last else f"partitions {first} to {last}"
        return f"{self.kind}, {which}, rows {start} to {stop}"

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "kind": self.kind,
            "n_partitions": len(self.partitions),
            "columns": [[column.name, column.dtype] for column in self.columns],
            "names": list(self.identity),
        }


def open_dask(source: object, y: object = None, sample_weight: object = None) -> DaskStore:
    """A store over a dask collection; nothing is computed, but for the first block of a list.

    Parameters
    ----------
    source : dask array (n, p), dask dataframe, dask bag, or list of Delayed
        Arrays chunked along columns are rechunked along them (``rechunk({1: -1})``).  Delayed
        blocks and bags say nothing of their columns: their first block is computed where the
        tasks run, and its column names and types come back.
    y, sample_weight : dask array or series (n,), array (n,), or list of Delayed; optional
        Cut like `source`; an array in memory needs known lengths.

    Raises
    ------
    SourceError
        Not two-dimensional, complex, object or string arrays, other lengths or partitions than X.
    """
    from dask import delayed

    kind, blocks, known, columns, sparse, identity = open_collection(source)
    check_shape(1 if known is None else sum(known), columns, kind)
    names = {column.name for column in columns}
    apart: list[list[object]] = []
    extra: list[Column | None] = []
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if values is None:
            apart.append([None] * len(blocks))
            extra.append(None)
            continue
        while name in names:
            name = "_" + name
        parts, dtype, token = open_column(name, values, len(blocks), known, kind)
        apart.append(parts)
        extra.append(Column(name, dtype))
        identity += [token] if token else []
    pair = delayed(Block, pure=True)
    partitions = [pair(*parts) for parts in zip(blocks, *apart, strict=True)]
    given = [column for column in extra if column is not None]
    store = DaskStore(kind, partitions, known, (*columns, *given), identity, sparse=sparse)
    store.default_target, store.default_weight = (
        None if column is None else column.name for column in extra
    )
    return store


def open_collection(
    source: object,
) -> tuple[str, list[object], tuple[int, ...] | None, tuple[Column, ...], bool, list[str]]:
    """Kind, delayed blocks, their lengths if known, columns, sparse, and names of a collection."""
    import dask.array as da
    from dask import bag
    from dask.delayed import Delayed

    if isinstance(source, da.Array):
        if source.ndim != 2 or np.isnan(source.shape[1]):
            raise SourceError(
                f"dask array: Expected 2D array with a known number of columns, got shape "
                f"{source.shape} instead; Reshape your data: rows are samples, columns are features"
            )
        if not is_plain(column_type(source.dtype, "dask array")):
            raise SourceError(f"dask array: expected numbers, got {source.dtype}")
        array = source.rechunk({1: -1}) if len(source.chunks[1]) > 1 else source
        column = column_type(array.dtype, "dask array")
        columns = numbered_columns(array.shape[1], column)
        sparse = type(array._meta).__module__.split(".")[0] == "scipy"
        known = None if np.isnan(array.shape[0]) else array.chunks[0]
        blocks = list(array.to_delayed().ravel())
        return "dask.array", blocks, known, columns, sparse, [array.name]
    if is_frame(source, "DataFrame"):
        columns = as_store(source._meta).columns
        return "dask.dataframe", list(source.to_delayed()), None, columns, False, [source._name]
    if isinstance(source, bag.Bag):
        kind, blocks, name = "dask.bag", list(source.to_delayed()), [source.name]
    elif isinstance(source, Delayed) or (
        isinstance(source, list | tuple) and source and all(isinstance(b, Delayed) for b in source)
    ):
        blocks = [source] if isinstance(source, Delayed) else list(source)
        kind, name = "dask.delayed", []  # delayed keys are drawn anew in each process
    else:
        raise SourceError(
            f"got {type(source).__name__}; expected a dask array, dataframe, bag or list of Delayed"
        )
    from dask import delayed

    columns, sparse = delayed(describe_block)(blocks[0]).compute()
    return kind, blocks, None, columns, sparse, name


def is_frame(source: object, *names: str) -> TypeGuard[dd.DataFrame | dd.Series]:
    """Whether an object is of one of dask's classes of these names; dask.dataframe is optional."""
    return any(
        kind.__name__ in names and kind.__module__.split(".")[0] in ("dask", "dask_expr")
        for kind in type(source).__mro__
    )


def open_column(
    name: str, values: object, n_blocks: int, known: tuple[int, ...] | None, kind: str
) -> tuple[list[object], str, str]:
    """`y` or `sample_weight` cut like X, of this kind: delayed blocks, `Column.dtype`, name."""
    import dask.array as da
    from dask import delayed
    from dask.delayed import Delayed

    if isinstance(values, list | tuple) and values and all(isinstance(v, Delayed) for v in values):
        if len(values) != n_blocks:
            raise SourceError(f"X has {n_blocks} blocks but {name} has {len(values)}")
        dtype = delayed(describe_vector)(name, values[0]).compute()
        return list(values), dtype, ""
    if is_frame(values, "Series", "DataFrame"):
        meta = as_vector(name, values._meta)
        parts, token, lengths = list(values.to_delayed()), values._name, None
        dtype = meta.column.dtype
    else:
        if isinstance(values, da.Array):
            array = raveled(name, values)
        else:
            if known is None:
                first = f"{LENGTHS[kind]}; or " if kind in LENGTHS else ""
                raise SourceError(
                    f"{name} is an array in memory, but the lengths of X's partitions are unknown: "
                    f"{first}pass as {name} {BESIDE.get(kind, A_BLOCK_EACH)}"
                )
            vector = as_vector(name, values)
            check_length(name, known, len(vector))
            array = da.from_array(vector.values(0, len(vector)), chunks=(known,))
        lengths = None if np.isnan(array.shape[0]) else array.chunks[0]
        if known is not None and lengths is not None:
            check_length(name, known, sum(lengths))
            array = array.rechunk((known,)) if tuple(lengths) != tuple(known) else array
        dtype = column_type(array.dtype, name)
        parts, token = list(array.to_delayed().ravel()), array.name
    if len(parts) != n_blocks:
        raise SourceError(
            f"X has {n_blocks} partitions but {name} has {len(parts)}; they must be cut alike: "
            f"pass as {name} {BESIDE.get(kind, A_BLOCK_EACH)}"
        )
    return parts, dtype, token


def check_length(name: str, known: tuple[int, ...], length: int) -> None:
    if sum(known) != length:
        raise SourceError(
            f"Found input variables with inconsistent numbers of samples: X has {sum(known)} rows, "
            f"{name} has {length}; they must be of equal length"
        )
