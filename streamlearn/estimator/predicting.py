"""Answers for rows: arrays from arrays and datasets, lazy dask from dask, parts on disk.

Every way goes through `answer_chunk`, so all give the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..config import format_bytes, get_config
from ..data.dataset import Dataset
from ..data.source import Chunk, Csr, Source
from ..engine.checkpoint.stopping import orderly_end
from ..engine.executor import count_threads, find_client, open_engine
from ..engine.plan import Needs
from ..engine.planning import RESERVE_BYTES
from ..engine.reads import planned_reads
from ..engine.scratch.materialise import map_partitions
from ..errors import MemoryBudgetError, SourceError
from ..numeric.malloc import BLOCK_BYTES, trim_heaps
from ..passes.fold import Fold, Result, State
from ..passes.sums import add_sums
from .model import Model
from .restored import n_outputs, output_labels
from .row_size import RowSize, decision_bytes, model_bytes, row_bytes, row_size
from .rows.encoding import HasColumns, feature_names, is_encoded, n_features
from .rows.inputs import check_count, is_dask, match_names, open_features, small_rows

if TYPE_CHECKING:
    from ..data.dask.map import DaskArray, DaskCollection
    from ..data.memory.vectors import Frame
    from ..data.write.sink import Sink

    Block: TypeAlias = np.ndarray | list[np.ndarray] | Frame

TRIMMED = 4 << 20
"""Bytes of parts of an answer that are let go between two trims of the heap."""
WHAT = ("prediction", "decision", "probability", "explanation", "deviation", "uncertainty")


def decide(model: Model, chunk: Chunk) -> np.ndarray:
    """The model's decisions for a chunk whose features are finite: (m,) or (m, K) float64."""
    check_finite(model, chunk)
    return model._decision_chunk(chunk)


def answer_chunk(model: Model, chunk: Chunk, what: str) -> np.ndarray:
    """One answer for each row of a chunk."""
    if what == "explanation":
        check_finite(model, chunk)
        return model._explain_chunk(chunk)
    if what == "deviation":
        check_finite(model, chunk)
        found: np.ndarray = model._deviation_chunk(chunk)
        return found
    decision = decide(model, chunk)
    if what == "uncertainty":
        return np.column_stack([model._label(decision), model._deviation_chunk(chunk)])
    if what == "decision":
        return decision
    return model._probability(decision) if what == "probability" else model._label(decision)


def check_finite(model: Model, chunk: Chunk) -> None:
    """Refuse infinity in the features, and NaN where it has no level, by column and row."""
    values = chunk.X.data if isinstance(chunk.X, Csr) else chunk.X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # quick: a NaN or an infinity makes the sum one
            return
    bad = ~np.isfinite(values)
    may_miss = getattr(model, "_has_level", None) if model._accepts_missing else None
    if may_miss is not None:
        allowed = may_miss[chunk.X.indices] if isinstance(chunk.X, Csr) else may_miss
        bad &= ~(np.isnan(values) & allowed)
    if not bad.any():  # the sum itself was too large
        return
    if isinstance(chunk.X, Csr):
        at = int(bad.argmax())
        row = int(np.searchsorted(chunk.X.indptr, at, side="right")) - 1
        column, value = int(chunk.X.indices[at]), values[at]
    else:
        row = int(bad.any(axis=1).argmax())
        column = int(bad[row].argmax())
        value = values[row, column]
    some = values.ndim == 2 and values.shape[1] < n_features(model)
    if some and (used := model._used_columns()) is not None:
        column = used[column]  # only these were read
    kind = "NaN" if np.isnan(value) else "infinity"
    name, where = column_name(model, column), chunk.rows[row]
    if may_miss is not None and np.isnan(value):
        raise SourceError(
            f"Input X contains NaN in column {name}, row {where}, a column that had no missing "
            "values in training, so what they mean was not learned; fill them in, or train with "
            "such rows"
        )
    raise SourceError(
        f"Input X contains {kind} in column {name}, row {where}; "
        "fill or drop such rows first, for example with Dataset.map or sklearn.impute"
    )


def column_name(model: HasColumns, column: int) -> str:
    """A feature's name in quotes, or its number."""
    if not is_encoded(model) and not hasattr(model, "feature_names_in_"):
        return str(column)
    return repr(feature_names(model)[column])


def check_what(model: Model, what: str) -> None:
    """Refuse an answer this model does not have."""
    if what not in WHAT:
        raise ValueError(f"what={what!r} is not known; use one of {', '.join(map(repr, WHAT))}")
    if what == "probability":
        if not hasattr(model, "_check_probability"):
            raise AttributeError(f"{type(model).__name__} predicts numbers, not probabilities")
        model._check_probability()
    if what == "explanation" and not hasattr(model, "_explain_chunk"):
        raise AttributeError(f"{type(model).__name__} is no sum of terms that could be told apart")
    if what in ("deviation", "uncertainty"):
        if not hasattr(model, "_check_deviation"):
            raise AttributeError(f"{type(model).__name__} does not know how precise it is")
        model._check_deviation()
        if what == "uncertainty" and hasattr(model, "classes_"):
            raise AttributeError(
                f"{type(model).__name__} predicts classes, which have no deviation; use "
                "what='deviation', that of the decisions"
            )


Parts = list[np.ndarray]
"""Answers of runs of rows, in row order."""


def answer(model: Model, X: object, what: str) -> np.ndarray | DaskArray:
    """Answers for the rows of X: an array, or a lazy dask array for a dask collection."""
    check_is_fitted(model)
    check_what(model, what)
    if is_dask(X):
        return lazy_answer(model, X, what)
    rows = small_rows(model, X)
    if rows is not None:
        found = answer_chunk(model, Chunk(rows, rows=range(len(rows))), what)
        return found.astype(empty_answer(model, what).dtype, copy=False)
    dataset = open_features(model, X)
    like = empty_answer(model, what)
    limit = None if dataset.in_memory else get_config().memory_budget
    check_size(dataset.n_rows or 0, like, limit)
    row = row_size(model, what, like)
    if _knows_places(dataset):
        whole = np.empty((dataset.n_physical_rows, *like.shape[1:]), like.dtype)
        writes: Fold[int, int] = Fold(int, partial(_write_rows, model, what, whole), add_sums)
        run(model, dataset, writes, name="predict", row=row)
        return whole
    fold: Fold[Parts, Parts]
    fold = Fold(list, partial(_append_answer, model, what, limit), partial(_join, limit))
    parts = run(model, dataset, fold, name="predict", row=row)
    out = np.empty((sum(map(len, parts)), *like.shape[1:]), like.dtype)
    at = freed = 0
    parts.reverse()
    while parts:  # each part goes once it is copied: never two whole answers
        part = parts.pop()
        out[at : at + len(part)] = part
        at, freed = at + len(part), freed + part.nbytes
        if freed > TRIMMED:  # many small parts would stay in the heap
            del part
            trim_heaps()
            freed = 0
    return out


def _knows_places(dataset: Dataset) -> bool:
    """Whether each row's place in the answer is its number, and tasks share this process's memory.

    Parts that are joined later leave the heap in pieces, which no plan counts.
    """
    is_whole = dataset.n_rows is not None and dataset.n_rows == dataset.n_physical_rows
    return is_whole and find_client(get_config().scheduler) is None


def _write_rows(model: Model, what: str, out: np.ndarray, n_rows: int, chunk: Chunk) -> int:
    """A chunk's answers, written in place; a task that is run twice writes the same."""
    if chunk.n_rows:
        first = int(chunk.rows[0])
        out[first : first + chunk.n_rows] = answer_chunk(model, chunk, what)
    return n_rows + chunk.n_rows


def check_size(n_rows: int, like: np.ndarray, limit: int | None) -> None:
    """Refuse an answer that leaves the memory budget no room for the reads that make it."""
    n_bytes = n_rows * row_bytes(like)
    if limit is not None and n_bytes + min(n_bytes, RESERVE_BYTES) > limit:
        raise MemoryBudgetError(
            f"the answer alone, {n_rows:,} rows x {row_bytes(like)} B = {format_bytes(n_bytes)}, "
            f"leaves the memory budget of {format_bytes(limit)} no room for the reads that make "
            "it; write it to disk with predict_to(X, path), or raise memory_budget"
        )


def _append_answer(model: Model, what: str, limit: int | None, parts: Parts, chunk: Chunk) -> Parts:
    return _join(limit, parts, [answer_chunk(model, chunk, what)] if chunk.n_rows else [])


def _join(limit: int | None, a: Parts, b: Parts) -> Parts:
    for part in b:
        a.append(part)
        # blocks that the system takes back one by one, out of the way of what is freed meanwhile
        while len(a) > 1 and a[-2].nbytes <= min(a[-1].nbytes, BLOCK_BYTES):
            last = a.pop()
            a[-1] = np.concatenate([a[-1], last])
    if a:  # how many rows a filter leaves is known only now
        check_size(sum(map(len, a)), a[0], limit)
    return a


def empty_answer(model: Model, what: str) -> np.ndarray:
    """An answer without rows: its dtype and width."""
    classes, K = getattr(model, "classes_", None), n_outputs(model)
    if what == "explanation":
        shape = (0, len(model.term_names_))
        return np.empty(shape if K == 1 else (*shape, K))
    if what == "uncertainty":
        return np.empty((0, 2))
    if classes is None:
        return np.empty(0 if K == 1 else (0, K))
    if what == "prediction":
        return np.empty(0, classes.dtype)
    if what in ("decision", "deviation") and len(classes) == 2:
        return np.empty(0)
    return np.empty((0, len(classes)))


def run(
    model: Model,
    dataset: Dataset,
    fold: Fold[State, Result],
    *,
    name: str,
    n_models: int = 1,
    score_bytes: int = 64,
    row: RowSize,
) -> Result:
    """One read of a dataset: here if its rows are in memory, else by the engine.

    `score_bytes`: of what a state holds for each of `n_models`.
    """

    def needs(rows: Source) -> list[Needs]:
        return [
            Needs(
                name,
                state_bytes=score_bytes * n_models,
                step_bytes_per_row=decision_bytes(model)
                + model._decision_row_nbytes(rows)
                + row.made,
                step_bytes=row.each_chunk,
                driver_bytes=row.kept * (rows.n_rows or 0),
                model_bytes=n_models * model_bytes(model),
            )
        ]

    with planned_reads(dataset, needs, f"{type(model).__name__}-{name}") as (_, reads):
        return reads.fold(fold, name=name)


def write_answers(
    model: Model, X: object, path: str | os.PathLike[str], what: str, *, overwrite: bool
) -> None:
    """Write the answers for the rows of X to `path`, whole or not at all."""
    check_is_fitted(model)
    check_what(model, what)
    like = empty_answer(model, what)
    names = answer_columns(model, like, what)
    collection, dataset = (
        (matched(model, X), None) if is_dask(X) else (None, open_features(model, X))
    )
    columns = [(name, str(like.dtype)) for name in names]
    with writing(path, columns, dataset, overwrite=overwrite) as sink:
        if dataset is None:
            n_rows = write_blocks(model, collection, what, sink, names)
        else:
            fold: Fold[int, int]
            fold = Fold(int, partial(_write_part, model, what, sink, names, None), add_sums)
            row = row_size(model, what, like, written=True)
            n_rows = run(model, dataset, fold, name="predict_to", row=row)
        sink.commit(n_rows)


def write_rows(
    model: Model,
    dataset: Dataset,
    path: str | os.PathLike[str],
    what: str,
    made: Callable[[np.ndarray], np.ndarray],
    names: list[str],
    *,
    overwrite: bool,
) -> None:
    """Write what is `made` of the answers for each chunk, float64 columns of these names."""
    check_what(model, what)
    rows = open_features(model, dataset)
    fold: Fold[int, int]
    with writing(path, [(name, "float64") for name in names], rows, overwrite=overwrite) as sink:
        fold = Fold(int, partial(_write_part, model, what, sink, names, made), add_sums)
        row = row_size(model, what, np.empty((0, len(names))), written=True)
        sink.commit(run(model, rows, fold, name="predict_to", row=row))


@contextmanager
def writing(
    path: str | os.PathLike[str],
    columns: list[tuple[str, str]],
    dataset: Dataset | None,
    *,
    overwrite: bool,
) -> Iterator[Sink]:
    """A sink at `path`, of (name, dtype) columns: whole once it is committed, or not at all.

    `dataset`: what is read meanwhile; None of a dask collection, which does not say where it lies.
    """
    from ..data.write.sink import open_sink

    format = "zarr" if str(path).rstrip("/").endswith(".zarr") else "parquet"
    reads = () if dataset is None else dataset.store.locations()
    with (
        orderly_end(),
        open_sink(path, columns=columns, format=format, reads=reads, overwrite=overwrite) as sink,
    ):
        yield sink


def answer_columns(model: Model, like: np.ndarray, what: str) -> list[str]:
    """``prediction``, ``decision``; or one column for each class: ``probability_a``, ...

    Of several quantiles one for each of them: ``prediction_0.9``.
    """
    if like.ndim == 1:
        return [what]
    if what == "uncertainty":
        return ["prediction", "deviation"]
    if what == "explanation":
        terms = model.term_names_
        if like.ndim == 2:
            return [f"{what}_{term}" for term in terms]
        return [f"{what}_{term}_{label}" for term in terms for label in output_labels(model)]
    return [f"{what}_{label}" for label in output_labels(model) or model.classes_]


def _write_part(
    model: Model,
    what: str,
    sink: Sink,
    names: list[str],
    made: Callable[[np.ndarray], np.ndarray] | None,
    n_rows: int,
    chunk: Chunk,
) -> int:
    if not chunk.n_rows:
        return n_rows
    values = answer_chunk(model, chunk, what)
    if made is not None:
        values = made(values)
    # The first physical row numbers a part: parts sort into row order, whichever task wrote them.
    write_values(sink, int(chunk.rows[0]), names, values)
    return n_rows + len(values)


def write_values(sink: Sink, number: int, names: list[str], values: np.ndarray) -> None:
    """One part of answers, a column for each name."""
    columns = values.reshape(len(values), -1)
    sink.write(number, 0, {name: columns[:, j] for j, name in enumerate(names)})


def lazy_answer(model: Model, X: DaskCollection, what: str) -> DaskArray:
    """The dask array of answers; columns are checked now, rows when it is computed."""
    from ..data.dask.map import map_rows  # loads dask

    return map_rows(matched(model, X), _answer_block, (model, what), empty_answer(model, what))


def matched(model: Model, X: DaskCollection) -> DaskCollection:
    """The collection with the columns the model was trained on, in that order."""
    if hasattr(X, "columns"):
        if hasattr(model, "feature_names_in_"):
            X = X[match_names(model, [str(name) for name in X.columns])]
        check_count(model, len(X.columns))
    elif hasattr(X, "shape"):
        check_count(model, X.shape[1])
    return X


def write_blocks(model: Model, X: object, what: str, sink: Sink, names: list[str]) -> int:
    """Each partition's answers to a part of its own, by the task that has it; rows written."""
    from ..data.dask.store import open_collection  # loads dask

    _, blocks, *_ = open_collection(X)
    scheduler = get_config().scheduler
    engine = open_engine(scheduler, count_threads(scheduler))
    try:
        how = engine.share((model, what))
        return sum(map_partitions(engine, blocks, "predict-to", _write_block, how, sink, names))
    finally:
        engine.close()


def _write_block(
    block: Block, number: int, how: tuple[Model, str], sink: Sink, names: list[str]
) -> int:
    values = _answer_block(block, how)
    if len(values):
        write_values(sink, number, names, values)
    return len(values)


def _answer_block(block: Block, how: tuple[Model, str]) -> np.ndarray:
    model, what = how
    X = np.vstack(block) if isinstance(block, list) and block else block
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    return answer(model, X, what) if n_rows else empty_answer(model, what)
