"""The public noun: rows elsewhere, with the choice of columns and rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import format_bytes
from ..errors import SourceError
from .choice import Choice
from .encoding import Encoding
from .levels import Coder, LevelCoder
from .mapped import SourceOver
from .order import HashShare, derive_seed, exact_share
from .reader import DatasetReader, Selection
from .risk.steps import Classes, Intervals
from .risk.store import rows_at_risk, with_duration
from .roles import refuse_duplicates, some
from .row_ranges import Refs, cut_runs
from .source import Chunk, Convert, Made

if TYPE_CHECKING:
    from ..passes.summary.summary import Summary

_SPLIT = 0x73706C6974
"""Keeps the hashes of split and take apart from those of folds: nested choices are independent."""


@dataclass(frozen=True)
class Dataset(Choice):
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

    def made_of(self) -> Made | None:
        if self.left_out_nbytes:
            return None  # its store makes no rows but those chosen
        return Made(self._bare(), Selection(self, self.shares, convert=self.convert).make)

    def _bare(self) -> Dataset:
        """All rows of the store as they are."""
        return self._with(shares=(), maps=(), mapped_names=None, reweigh=None, convert=None)

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
        names = self.columns
        for f in self.maps:
            if not isinstance(f, Encoding):
                return {}  # a function of numbers makes what nobody knows
            plain = set(f.plain_columns)
            names = tuple(name for name in names if name in plain)
        coders = self.store.levels
        if not coders:
            return {}
        found = {name: coders[name] for name in names if name in coders}
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
        if self.store.filtered or self.siblings > 1:
            raise SourceError(
                f"take({rows}): how many rows there are is known only after reading them, as "
                "filters and rows at risk leave some out; take a share (a float) instead"
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

    def at_risk(
        self,
        duration: str,
        cuts: Sequence[float],
        *,
        event: str | None = None,
        interval: str = "interval",
        exposure: str = "exposure",
    ) -> Dataset:
        """The rows, once for each interval of time that they enter: survival as Poisson's counts.

        A row at risk keeps the features and the weight; its target is 1 where the event happened
        in that interval, else 0.  ``AdditiveRegressor("poisson", exposure="exposure")`` of such
        rows is a model of hazards that are constant within intervals; with a cut at every time of
        an event its other curves are those of Cox's model, ties as Breslow has them.  The name is
        that of the set over which Cox sums; the other tools' ``survSplit`` and ``as_ped`` say what
        is done to a table, which here nobody sees.

        Choose parts (`split`, `take`, folds) before or after: all rows of a subject go together.
        Sparse rows stay sparse.

        Parameters
        ----------
        duration : str
            The column of times until the event, or until the row was lost; at least 0.  It is no
            feature of the result.  Where it is one of sparse columns, what is not stored is 0.
        cuts : sequence of float
            Ends of the intervals, ascending from above 0.  What comes after the last is not seen.
        event : str, optional
            The column that says whether the event happened (1) or the row was lost (0); default:
            the target.
        interval, exposure : str
            Names of the new features: the interval's number, from 0, and the time spent in it.

        Examples
        --------
        >>> import numpy as np
        >>> from streamlearn import open_dataset
        >>> table = {"age": np.array([50.0, 60.0]), "time": np.array([3.0, 1.5]), "died": [0, 1]}
        >>> rows = open_dataset(table, target="died").at_risk("time", cuts=[1, 2, 4])
        >>> [chunk] = rows.iter_chunks()
        >>> rows.feature_names, chunk.y
        (('age', 'interval', 'exposure'), array([0, 0, 0, 0, 1], dtype=uint8))
        >>> chunk.X.tolist()[2:]
        [[50.0, 2.0, 1.0], [60.0, 0.0, 1.0], [60.0, 1.0, 0.5]]
        """
        data = with_duration(self, duration, self.target if event is None else event)
        kind = self.column_types.get(duration, self.dtype.name)
        return rows_at_risk(data, Intervals(cuts, interval, exposure, duration, kind))

    def ordinal_steps(self, classes: Sequence[object], *, step: str = "step") -> Dataset:
        """The rows, once for each step that they come to on the way to their class.

        Row i of the k-th of the classes comes to the steps 0 .. k: its target is 1 in step k,
        where it stops, and 0 in those before; rows of the last class pass all of them.  A
        classifier of such rows with the log-loss, such as ``AdditiveClassifier()``, is the
        sequential (continuation-ratio) model of ordered classes, with one curve of each feature
        for all steps; `ordinal_probabilities` puts its answers together.

        Parameters
        ----------
        classes : sequence
            All values of the target, in their order.
        step : str
            Name of the new feature, the step's number from 0.
        """
        if self.target is None:
            raise SourceError(
                "ordinal_steps needs the classes: open the dataset with target=, the column of them"
            )
        return rows_at_risk(self, Classes(classes, step, self.target))

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

    def made_of(self) -> Made:
        bare = replace(self, source=self.source._bare())
        return Made(bare, Selection(self.source, self.source.shares, self.name).make)


def _pick(index: list[int], X: np.ndarray) -> np.ndarray:
    return X[:, index]
