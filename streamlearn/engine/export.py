"""A dataset's rows written out again, in one planned read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from ..data.choice import Choice
from ..data.source import Chunk, Csr, Source
from ..data.write.sink import ASSEMBLY_NBYTES, WRITER_BYTES, Sink, open_sink
from ..errors import SourceError
from ..passes.fold import Fold
from ..passes.sums import add_sums
from .checkpoint.stopping import orderly_end
from .plan import Needs
from .reads import planned_reads

COPIES = {"parquet": 4, "zarr": 3}
"""Copies of a part's rows while it is written: a column, the bytes, what encodes them, and of
parquet the buffer that grows."""
WORD_NBYTES = 64
"""Bytes of a target that is a word, while it is written."""


def write_parquet(dataset: Choice, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """The rows of a dataset as a folder of parquet files, one a chunk."""
    if dataset.sparse:
        raise SourceError(
            f"{dataset.n_features} sparse columns are not written to parquet; use to_zarr"
        )
    columns = [(name, dataset.dtype.name) for name in dataset.feature_names]
    columns += _extra(dataset)
    reads = dataset.store.locations()
    with (
        orderly_end(),
        open_sink(
            path, columns=columns, format="parquet", reads=reads, overwrite=overwrite
        ) as sink,
    ):
        _write_all(dataset, sink, 0)


def write_zarr(dataset: Choice, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """The rows of a dataset as a zarr group: ``X``, target and weight as ``y`` and ``weight``."""
    if dataset.sparse:
        raise SourceError("a sparse dataset is not written to zarr; AnnData writes CSR groups")
    with (
        orderly_end(),
        open_sink(
            path,
            columns=[("X", dataset.dtype.name), *_extra(dataset, "y", "weight")],
            format="zarr",
            reads=dataset.store.locations(),
            overwrite=overwrite,
            attributes={"feature_names": list(dataset.feature_names)},
        ) as sink,
    ):
        _write_all(dataset, sink, ASSEMBLY_NBYTES)


def _extra(
    dataset: Source, target: str | None = None, weight: str | None = None
) -> list[tuple[str, str]]:
    """(name, dtype) of target and weight, under their own names or those given."""
    extra = []
    if dataset.target is not None:
        kind = dataset.column_types[dataset.target]
        kind = {"dictionary": "string", "decimal": "float64"}.get(kind, kind)
        extra.append((target or dataset.target, kind))
    if dataset.weight is not None:
        extra.append((weight or dataset.weight, "float64"))
    return extra


def _write_all(dataset: Choice, sink: Sink, assembly_bytes: int) -> None:
    fold: Fold[int, int] = Fold(int, partial(_write_part, sink), add_sums)
    needs = partial(_needs, sink, assembly_bytes)
    with planned_reads(dataset, needs, f"to_{sink.format}") as (_, reads):
        n_rows = reads.fold(fold, name="export")
    if not n_rows and sink.format == "zarr":
        raise SourceError(f"no rows are left to write to {sink.target}")
    sink.commit(n_rows)


def _needs(sink: Sink, assembly_bytes: int, dataset: Source) -> Sequence[Needs]:
    """A writer, and copies of a part's rows.

    What puts the parts together comes after the read.
    """
    row = dataset.n_features * dataset.dtype.itemsize
    row += sum(WORD_NBYTES if kind == "string" else 8 for _, kind in _extra(dataset))
    read = Needs(
        "export", 64, step_bytes_per_row=COPIES[sink.format] * row, step_bytes=WRITER_BYTES
    )
    if not assembly_bytes:
        return [read]
    return [read, Needs("assembly", 0, driver_bytes=assembly_bytes, passes=(0, 0), on_driver=True)]


def _write_part(sink: Sink, n_rows: int, chunk: Chunk) -> int:
    if not chunk.n_rows:
        return n_rows
    X = chunk.X
    assert not isinstance(X, Csr)
    features = [X] if sink.format == "zarr" else list(X.T)
    extra = [array for array in (chunk.y, chunk.weight) if array is not None]
    names = [name for name, _ in sink.columns]
    # The first physical row numbers a part: parts sort into row order, whichever task wrote them.
    sink.write(int(chunk.rows[0]), 0, dict(zip(names, [*features, *extra], strict=True)))
    return n_rows + chunk.n_rows
