"""The public noun: rows elsewhere, with the choice of columns and rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import format_bytes
from ..errors import SourceError
from .column_types import CATEGORIES, SINGLE
from .encoding import Encoding
from .levels import Coder, LevelCoder
from .mapped import SourceOver
from .order import HashShare, derive_seed, exact_share, kept_rows
from .roles import check_columns, refuse_duplicates, some
from .row_ranges import Ref, Refs, cut_runs, largest_slice
from .source import Chunk, Convert, Csr, Source
from .store import Store

if TYPE_CHECKING:
    from ..passes.summary.summary import Summary

_SPLIT = 0x73706C6974
"""Keeps the hashes of split and take apart from those of folds: nested choices are independent."""


@dataclass(frozen=True)
class Dataset(Source):
    """Rows of a store, lazily: nothing is read until a pass is run.  Made by `open_dataset`.

    Immutable, picklable and cheap to send.  Its methods return other Datasets over the same store;
    ``chunk.rows`` are always the row numbers of the store, whatever rows were left out.

    Attributes
    ----------
    n_rows : int or None
        None for a filtered one until its `summary`.
    n_features : int
    feature_names : tuple of str
    target, weight : str or None
        Names of the columns that chunks give as ``y`` and ``weight``.
    dtype : numpy.dtype
        Type of the chunks' features: float32 if that holds every column exactly, else float64.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import open_dataset
    >>> data = open_dataset(np.arange(20.0).reshape(10, 2))
    >>> first, rest = data.split(0.5, seed=0)  # by a hash of the row number
    >>> [len(chunk.X) for chunk in first.iter_chunks()], data.select(["x1"]).n_features
    ([4], 1)
    """

    store: Store
    columns: tuple[str, ...]
    target: str | None = None
    weight: str | None = None
    chunk_rows: int | None = None
    shares: tuple[HashShare, ...] = ()
    maps: tuple[Callable[[object], object] | Encoding, ...] = ()
    mapped_names: tuple[str, ...] | None = None
    convert: Convert | None = None
    bytes_kept: bool = False
    """Whether sparse rows that are stored as bytes are given as uint8, whatever `dtype`."""
    reweigh: Callable[[Chunk], Chunk] | None = None
    """Function that gives a chunk, which it may change, other weights."""
    _counted: list[int] = field(default_factory=list, repr=False, compare=False)
    """Number of rows after filters, once a summary has counted them."""
    _typed: list[dict[str, str]] = field(default_factory=list, repr=False, compare=False)
    """`_types` once it is made: one for all choices of columns of a store."""

    def __post_init__(self) -> None:
        check_columns(self.store, self._types, self.columns, self.target, self.weight)
        if self.chunk_rows is not None and self.chunk_rows < 1:
            raise ValueError(f"chunk_rows={self.chunk_rows}; a chunk holds at least one row")

    def __getstate__(self) -> dict[str, object]:
        own = {f.name for f in fields(self)}
        kept = {name: value for name, value in vars(self).items() if name in own}
        return {**kept, "_typed": []}  # not what is cached

    # What it is.

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.columns if self.mapped_names is None else self.mapped_names

    @cached_property
    def _types(self) -> dict[str, str]:
        """Stored type of every column of the store."""
        if not self._typed:
            self._typed.append({column.name: column.dtype for column in self.store.columns})
        return self._typed[0]

    @property
    def column_types(self) -> Mapping[str, str]:
        """`Column.dtype` of the columns as stored; of target and weight alone if X is mapped."""
        if not self.maps:
            return self._types
        return {name: self._types[name] for name in (self.target, self.weight) if name is not None}

    @cached_property
    def dtype(self) -> np.dtype:
        single = all(self._types[name] in (*SINGLE, *CATEGORIES) for name in self.columns)
        return np.dtype(np.float32 if single else np.float64)

    @cached_property
    def categorical(self) -> tuple[str, ...]:
        """Feature columns of strings or dictionaries whose levels are not known yet."""
        return tuple(name for name in self.columns if self._types[name] in CATEGORIES)

    @property
    def sparse(self) -> bool:
        return self.store.sparse

    @property
    def kind(self) -> str:
        return self.store.kind

    @property
    def in_memory(self) -> bool:
        return self.store.in_memory

    @property
    def n_missing_chunks(self) -> int:
        """Chunks that are not stored, whose cells are read as a fill value (zarr)."""
        return self.store.n_missing_chunks

    @property
    def passes_before(self) -> int:
        return self.store.passes_before

    @property
    def n_physical_rows(self) -> int:
        return self.store.n_rows

    @cached_property
    def _hashed_rows(self) -> int:
        return kept_rows(self.shares, self.store.n_rows)

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]  # a plain attribute elsewhere
        if self._counted:
            return self._counted[0]
        if self.store.filtered:
            return None
        return self._hashed_rows if self.shares else self.store.n_rows

    @cached_property
    def slice_rows(self) -> int:
        """Rows of the largest chunk: `chunk_rows`, or the power of two that decodes to 16 MiB."""
        return largest_slice(self._row_nbytes) if self.chunk_rows is None else self.chunk_rows

    @cached_property
    def _row_nbytes(self) -> float:
        row = self.store.row_nbytes(self.columns, self.dtype)
        widths = [f.n_features for f in self.maps if isinstance(f, Encoding) and not f.sparse]
        return max([row, *(float(width * self.dtype.itemsize) for width in widths)])

    @cached_property
    def stored_nbytes(self) -> int:
        """Bytes on disk that one read of the dataset's columns takes."""
        names = dict.fromkeys([*self.columns, *filter(None, (self.target, self.weight))])
        return self.store.stored_nbytes(tuple(names))

    @cached_property
    def overhead_nbytes(self) -> int:
        # a column made to several needs a few numbers a row beside them
        mapped = int(self.slice_rows * (self._row_nbytes + 64)) if self.maps else 0
        return self.store.overhead_nbytes(self.columns, self.slice_rows) + mapped

    @property
    def shared_nbytes(self) -> int:
        return self.store.shared_nbytes + sum(
            f.nbytes for f in self.maps if isinstance(f, Encoding)
        )

    def fingerprint(self) -> dict[str, object]:
        """Identity of these rows and columns as JSON values, found without reading them."""
        return {
            **self.store.fingerprint(),
            "features": list(self.feature_names),
            "columns_read": list(self.columns),
            "target": self.target,
            "weight": self.weight,
            "slice_rows": self.slice_rows,
            "shares": [[share.low, share.high, share.seed] for share in self.shares],
            "maps": [_name_of(f) for f in self.maps],
        }

    def versions(self) -> dict[str, str]:
        """Versions of the files, as they were when the dataset was opened; see `Store.versions`."""
        return dict(self.store.versions())

    def place(self, ref: Ref) -> str:
        return self.store.place(ref.start, ref.stop)

    def __repr__(self) -> str:
        names = ", ".join(self.feature_names[:6]) + (", ..." if self.n_features > 6 else "")
        if self.n_physical_rows is None:  # of a stream, known once it has been read
            return (
                f"Dataset of a stream of rows x {self.n_features} features\n"
                f"  features: {names}\n  target: {self.target}, weight: {self.weight}"
            )
        rows = "filtered rows of " if self.n_rows is None else f"{self.n_rows:,} rows of "
        if self.n_rows == self.n_physical_rows:
            rows = ""
        lines = [
            f"Dataset of {rows}{self.n_physical_rows:,} rows x {self.n_features} features "
            f"({self.kind}{', sparse' if self.sparse else ''}, {self.dtype})",
            f"  features: {names}",
            f"  target: {self.target}, weight: {self.weight}",
            f"  {format_bytes(self.decoded_nbytes)} decoded in {len(self.refs()):,} chunks"
            + (f", {format_bytes(self.stored_nbytes)} stored" if self.stored_nbytes else ""),
        ]
        if self.n_missing_chunks:
            lines.append(f"  missing: {self.n_missing_chunks:,} chunks, read as the fill value")
        return "\n".join(lines)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        """Refused: it is how numpy and scikit-learn's tools ask for all rows in memory."""
        raise TypeError(
            f"a {' '.join(repr(self).splitlines()[0].split())} is read in chunks, and was asked "
            "for as one array. scikit-learn's searches, splitters and transformers choose rows of "
            "arrays in memory: use sl.cross_validate(model, data, param_grid=...) or an estimator "
            "whose name ends in CV, data.split and data.take for parts, data.map for features; or "
            "give X and y as arrays, if they fit in memory"
        )

    # Reading.

    @cached_property
    def _refs(self) -> Refs:
        runs = cut_runs(
            self.store.boundaries(), self.store.live(), self.slice_rows, self._row_nbytes
        )
        return Refs.of_runs(runs, self._row_nbytes)

    def refs(self) -> Refs:
        """The runs of rows to read, in order: a function of the data and the columns alone."""
        return self._refs

    def reader(self) -> DatasetReader:
        return DatasetReader(self)

    def column(self, name: str) -> ColumnSource:
        """One column, of strings perhaps, as the target of chunks without features."""
        return ColumnSource(self, name)

    def iter_chunks(self) -> Iterator[Chunk]:
        """The chunks in row order; the arrays of one are overwritten by the next."""
        with self.reader() as reader:
            for ref in self.refs():
                yield reader.read(ref)

    def summary(self) -> Summary:
        """Ranges, missing values, quantiles, class counts of the columns; reads one pass."""
        # The engine is above this room: the method is a door to it, no more.
        from ..engine.summary import summarise

        summary = replace(summarise(self), n_missing_chunks=self.n_missing_chunks)
        self._counted[:] = [summary.n_rows]
        return summary

    # Other choices of the same rows.

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of the feature columns that are read as their codes."""
        if self.mapped_names is not None:
            return {}
        coders = self.store.levels
        found = {name: coders[name] for name in self.columns if name in coders}
        return {name: coder.words for name, coder in found.items() if isinstance(coder, Coder)}

    def with_levels(self, levels: Mapping[str, Sequence[str]]) -> Dataset:
        """The string columns named read as codes of these levels; other words are NaN."""
        return self.with_coders({name: Coder(name, words) for name, words in levels.items()})

    def with_coders(self, coders: Mapping[str, LevelCoder]) -> Dataset:
        """The string columns named read as the codes that these give."""
        if coders and self.maps:
            raise SourceError(
                f"Dataset.map was given a table with the string columns {some(list(coders))}, "
                "whose codes a function of numbers would take for numbers; select the others first"
            )
        unknown = [name for name in coders if name not in self.categorical]
        if unknown:
            raise SourceError(
                f"{some(unknown)} are no columns of strings; there are {some(self.categorical)}"
            )
        return self._with(store=self.store.coded(coders)) if coders else self

    @property
    def is_weighted(self) -> bool:
        return self.weight is not None or self.reweigh is not None

    def reweighed(self, reweigh: Callable[[Chunk], Chunk]) -> Dataset:
        """The same rows with other weights; the function (picklable) may change its chunk."""
        return self._with(reweigh=reweigh)

    def with_encoding(self, encoding: Encoding) -> Dataset:
        """The features that an encoding makes of these columns, whose words are codes already."""
        names = tuple(encoding.feature_names())
        refuse_duplicates(names)
        return self._with(maps=(*self.maps, encoding), mapped_names=names)

    def _with(self, **changes: Any) -> Dataset:
        if "shares" in changes:
            changes["_counted"] = []
        if "store" in changes:
            changes["_typed"] = []
        return replace(self, **changes)

    def with_slice_rows(self, n: int) -> Dataset:
        """The same rows and columns in chunks of at most `n` rows."""
        return self._with(chunk_rows=int(n))

    def select(self, columns: Sequence[str]) -> Dataset:
        """Keep these feature columns, in this order; the others are not read."""
        names = tuple(columns)
        if self.mapped_names is None:
            return self._with(columns=names)
        missing = [name for name in names if name not in self.mapped_names]
        if missing:
            raise SourceError(f"no feature {some(missing)}; there are {some(self.mapped_names)}")
        refuse_duplicates(names)
        last = self.maps[-1]
        if isinstance(last, Encoding):  # the columns that these are made of, and no other
            kept, encoding = last.of_features(names)
            before = self._before_encoding()
            return before.select([before.feature_names[j] for j in kept]).with_encoding(encoding)
        index = [self.mapped_names.index(name) for name in names]
        return self.map(partial(_pick, index), names)

    with_columns = select

    def _before_encoding(self) -> Dataset:
        """The dataset whose columns the last map, an encoding, was given."""
        encoding = self.maps[-1]
        names = encoding.names if isinstance(encoding, Encoding) and len(self.maps) > 1 else None
        return self._with(maps=self.maps[:-1], mapped_names=names)

    @property
    def converts(self) -> bool:
        """Whether `through` is possible: the store decodes column by column, and no map follows."""
        return self.store.converts and not self.maps

    def through(self, convert: Convert) -> Dataset:
        """The same rows, each feature put through `convert` while it is decoded; X is float32."""
        return self._with(convert=convert)

    def as_bytes(self) -> Dataset:
        """The same rows, their values as uint8 if they are sparse and stored so."""
        return self._with(bytes_kept=self.store.has_bytes and not self.maps)

    def where_hash(self, low: float, high: float, seed: int) -> Dataset:
        """The rows whose hash under `seed`, as a share in [0, 1), lies in [low, high)."""
        if not 0.0 <= low <= high <= 1.0:
            raise ValueError(f"a hash share [{low}, {high}) is not inside [0, 1]")
        share = HashShare(float(low), float(high), int(seed))
        return self._with(shares=(*self.shares, share))

    def split(self, fraction: float = 0.8, seed: int = 0) -> tuple[Dataset, Dataset]:
        """About `fraction` of the rows, and the others, by a hash of the row number: no copy."""
        if not 0.0 < fraction < 1.0:
            raise ValueError(f"fraction={fraction}; split takes a share between 0 and 1")
        key = self._choice_seed(seed)
        return self.where_hash(0.0, fraction, key), self.where_hash(fraction, 1.0, key)

    def take(self, rows: int | float, seed: int = 0) -> Dataset:
        """Exactly `rows` rows (an int), or about that share of them (a float), drawn by hash."""
        key = self._choice_seed(seed)
        if isinstance(rows, float | np.floating):
            if not 0.0 < rows <= 1.0:
                raise ValueError(
                    f"take({rows}); a share lies in (0, 1], a number of rows is an int"
                )
            return self.where_hash(0.0, float(rows), key)
        if rows < 1:
            raise ValueError(f"take({rows}); take at least one row")
        if self.store.filtered:
            raise SourceError(
                f"take({rows}) of a filtered dataset: which rows the filter leaves is known only "
                "after reading them; take a share (a float) instead"
            )
        high = exact_share(self.shares, self.store.n_rows, int(rows), key)
        return self.where_hash(0.0, high, key)

    def _choice_seed(self, seed: int) -> int:
        return derive_seed(seed, _SPLIT, len(self.shares))

    def map(self, f: Callable[[Any], Any], feature_names: Sequence[str] | None = None) -> Dataset:
        """The features after ``f(X)``, applied chunk by chunk as they are read.

        `f` must be picklable, act on each row alone, and leave its argument's rows in their order;
        `feature_names` are needed if it changes the columns.
        """
        names = self.feature_names if feature_names is None else tuple(feature_names)
        refuse_duplicates(names)
        return self._with(maps=(*self.maps, f), mapped_names=names)

    # Writing.

    def to_parquet(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the rows as a folder of parquet parts, a part a chunk; reads one pass."""
        from ..engine.export import write_parquet

        write_parquet(self, path, overwrite=overwrite)

    def to_zarr(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the rows as a zarr v3 group of ``X``, ``y``, ``weight``; reads one pass."""
        from ..engine.export import write_zarr

        write_zarr(self, path, overwrite=overwrite)


@dataclass(frozen=True)
class ColumnSource(SourceOver):
    """One column of a dataset, of strings perhaps, as the target of chunks without features."""

    source: Dataset
    name: str

    @property
    def target(self) -> str:
        return self.name

    @property
    def feature_names(self) -> tuple[str, ...]:
        return ()

    @property
    def stored_nbytes(self) -> int:
        return self.source.store.stored_nbytes((self.name,))

    def reader(self) -> DatasetReader:
        return DatasetReader(self.source, only=self.name)


class DatasetReader:
    """An open dataset, rows selected, mapped and checked: one task's files and buffers."""

    def __init__(self, dataset: Dataset, only: str | None = None) -> None:
        """`only`: that column, of strings perhaps, as the target, and no features."""
        self._dataset = data = dataset
        self._columns = data.columns if only is None else ()
        if only is None and data.categorical:
            raise SourceError(
                f"the columns {some(data.categorical)} hold strings, which are read once their "
                "levels are known: Dataset.with_levels gives them, Dataset.summary() and the "
                "families that take categories learn them; or leave them out with features="
            )
        self._reweigh = data.reweigh if only is None else None
        target = data.target if only is None else only
        dtype = np.dtype(np.uint8) if data.bytes_kept else data.dtype
        if data.convert is None:
            self._reader = data.store.open(self._columns, target, data.weight, dtype)
        else:
            open_through = data.store.open_through
            self._reader = open_through(self._columns, target, data.weight, dtype, data.convert)

    def __enter__(self) -> DatasetReader:
        return self

    def __exit__(self, *raised: object) -> None:
        self._reader.close()

    def read(self, ref: Ref) -> Chunk:
        """The chunk of `ref`; its arrays are valid until the next read."""
        data = self._dataset
        chunk = self._reader.read(ref.start, ref.stop)
        if chunk.X.shape[1] != len(self._columns):
            raise SourceError(
                f"{data.place(ref)} has {chunk.X.shape[1]} columns, expected {len(self._columns)}"
            )
        if data.shares:
            keep = data.shares[0].keeps(chunk.rows)
            for share in data.shares[1:]:
                keep &= share.keeps(chunk.rows)
            # Rows of an array in memory are the user's own, rows read are the reader's.
            chunk = chunk.where(keep, in_place=not data.in_memory)
        if self._columns and data.maps:
            for f in data.maps:
                mapped: object
                if isinstance(f, Encoding):
                    mapped = f.encode(chunk.X, chunk.rows)
                else:
                    mapped = f(chunk.X)
                chunk.X = mapped if isinstance(mapped, Csr) else np.asarray(mapped)
            self._check_mapped(chunk, ref)
        if self._reweigh is not None:
            chunk = self._reweigh(chunk)
        return chunk

    def _check_mapped(self, chunk: Chunk, ref: Ref) -> None:
        data = self._dataset
        wanted = (chunk.n_rows, data.n_features)
        if chunk.X.shape != wanted:
            raise SourceError(
                f"map gave an array of shape {chunk.X.shape} for {data.place(ref)}, expected "
                f"{wanted}; pass feature_names= if the function changes the columns"
            )
        if isinstance(chunk.X, np.ndarray) and chunk.X.dtype != data.dtype:
            chunk.X = chunk.X.astype(data.dtype)


def _pick(index: list[int], X: np.ndarray) -> np.ndarray:
    return X[:, index]


def _name_of(f: Callable[..., object] | Encoding) -> str:
    if isinstance(f, Encoding):
        return f"encoding {f.seed} {[(coding.position, coding.kind) for coding in f.codings]}"
    if isinstance(f, partial):
        return f"{_name_of(f.func)}{f.args}{f.keywords}"
    try:
        return f"{f.__module__}.{f.__qualname__}"
    except AttributeError:  # an object that is called, or a ufunc of a numpy before 2.2
        if isinstance(f, np.ufunc):
            return f"numpy.{f.__name__}"
        return f"{type(f).__module__}.{type(f).__qualname__}"
