"""A dataset's rows written out again, in one pass over them in row order."""

from __future__ import annotations

import os

from ...errors import SourceError
from ..source import Csr, Source
from .sink import Sink, open_sink


def write_parquet(dataset: Source, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """The rows of a dataset as a folder of parquet files, one a chunk."""
    if dataset.sparse:
        raise SourceError(
            f"{dataset.n_features} sparse columns are not written to parquet; use to_zarr"
        )
    columns = [(name, dataset.dtype.name) for name in dataset.feature_names]
    sink = open_sink(path, columns=columns + _extra(dataset), format="parquet", overwrite=overwrite)
    _write_all(dataset, sink)


def write_zarr(dataset: Source, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """The rows of a dataset as a zarr group: ``X``, target and weight as ``y`` and ``weight``."""
    if dataset.sparse:
        raise SourceError("a sparse dataset is not written to zarr; AnnData writes CSR groups")
    sink = open_sink(
        path,
        columns=[("X", dataset.dtype.name), *_extra(dataset, "y", "weight")],
        format="zarr",
        overwrite=overwrite,
        attributes={"feature_names": list(dataset.feature_names)},
    )
    _write_all(dataset, sink)


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


def _write_all(dataset: Source, sink: Sink) -> None:
    n_rows = 0
    names = [name for name, _ in sink.columns]
    try:
        with dataset.reader() as reader:
            for i, ref in enumerate(dataset.refs()):
                chunk = reader.read(ref)
                X = chunk.X
                assert not isinstance(X, Csr)
                features = [X] if sink.format == "zarr" else list(X.T)
                extra = [array for array in (chunk.y, chunk.weight) if array is not None]
                if chunk.n_rows:
                    sink.write(i, 0, dict(zip(names, [*features, *extra], strict=True)))
                n_rows += chunk.n_rows
        if not n_rows and sink.format == "zarr":
            raise SourceError(f"no rows are left to write to {sink.target}")
        sink.commit(n_rows)
    except BaseException:
        sink.abort()
        raise
