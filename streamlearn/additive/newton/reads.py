"""Reads of the same rows again and again: the first may cache them for the others."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...data.source import Chunk, Source
from ...engine.run import Run
from ...engine.scratch.blocks import RowForm
from ...numeric.bases.bsplines import Bases, Coordinates
from ...passes.fold import Fold
from ..basis.kernels import coordinates_rows


class CachedReads:
    """Reads of all rows, mapped to coordinates once where that can be.

    `in_memory`: the first read keeps the rows in memory if the plan has room; `to_scratch`: it
    writes them to a copy, in the form that kernels take.
    """

    def __init__(
        self, run: Run, source: Source, bases: Bases, *, in_memory: bool, to_scratch: bool
    ) -> None:
        self.bases = bases
        """The bases as the rows of the reads need them."""
        self._run, self._source = run, source
        self._caches = to_scratch or (run.keeps_rows and in_memory)
        self._form: RowForm | None = None
        if to_scratch:
            convert, n_columns = partial(_by_columns, bases), bases.n_columns
            self._form = RowForm(convert, n_columns, "float32")
            self.bases = bases._replace(prepared=True)
        elif source.converts:
            # Each column is mapped while its decoded values are still in the processor's cache.
            self._source = source.through(Coordinates(bases))
            self.bases = bases._replace(prepared=True)

    def fold(self, fold: Fold, name: str) -> Any:
        """The fold of all rows, which the first read caches."""
        if not self._caches:
            return self._run.fold(fold, self._source, name=name)
        self._caches = False
        in_memory = self._form is None
        self._source, found = self._run.cache(
            self._source, self._form, also=fold, in_memory=in_memory, name=name
        )
        return found


def _by_columns(bases: Bases, chunk: Chunk) -> Chunk:
    """The chunk as column-major coordinates."""
    X = coordinates_rows(chunk.X, bases)
    return Chunk(X, chunk.y, chunk.weight, chunk.rows)
