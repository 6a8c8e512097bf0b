"""Small sources and folds for the engine's tests."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from streamlearn.data.row_ranges import Ref
from streamlearn.data.source import Chunk, Csr, Source
from streamlearn.engine.plan import Needs
from streamlearn.engine.planning import make_plan
from streamlearn.engine.run import Run
from streamlearn.engine.scratch.blocks import RowForm
from streamlearn.passes.fold import Fold, RowState


@dataclass(frozen=True)
class Rows(Source):
    """Rows made from their numbers, so that any process can make them; `skip` leaves some out."""

    n_rows: int = 1000
    p: int = 3
    slice_rows: int = 32
    columns: bool = True
    sparse: bool = False
    skip: int = 0
    row_nbytes: int = 24

    def refs(self):
        starts = range(0, self.n_rows, self.slice_rows)
        stops = [min(start + self.slice_rows, self.n_rows) for start in starts]
        return tuple(
            Ref(start, stop, (stop - start) * self.row_nbytes)
            for start, stop in zip(starts, stops, strict=True)
        )

    def with_slice_rows(self, n_rows):
        return type(self)(**{**self.__dict__, "slice_rows": n_rows})

    def reader(self):
        return RowsReader(self)

    def all(self):
        return self.reader().read(Ref(0, self.n_rows, 0))


@dataclass
class RowsReader:
    source: Rows

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return None

    def read(self, ref):
        source = self.source
        rows = range(ref.start, ref.stop)
        if source.skip:
            rows = np.array([r for r in rows if r % source.skip], dtype=np.int64)
        i = np.asarray(rows, dtype=np.float64)
        X = np.sin(np.outer(i + 1, np.arange(1, source.p + 1))).astype(np.float32)
        y = np.cos(i)
        if source.sparse:
            full = np.where(X > 0, X, 0)
            at = np.nonzero(full)
            indptr = np.r_[0, np.cumsum((full != 0).sum(axis=1))].astype(np.int64)
            X = Csr(full[at], at[1].astype(np.int32), indptr, source.p)
        elif source.columns:
            X = np.asfortranarray(X)
        return Chunk(X, y, None, rows)


@dataclass(frozen=True)
class FailingRows(Rows):
    """Fails on the refs that start in `at`, `times` times each, counted in files of a folder."""

    folder: str = ""
    at: tuple[int, ...] = ()
    times: int = 1
    error: type[Exception] = OSError
    kill: bool = False
    skip_kills: int = 0
    """Readings of a ref in `at` that go well before one fails."""

    def reader(self):
        return FailingReader(self)


@dataclass
class FailingReader(RowsReader):
    source: FailingRows = field(default=None)

    def read(self, ref):
        source = self.source
        log = Path(source.folder, f"{ref.start}.log")
        with log.open("a") as file:
            file.write("x")
        n_reads = log.stat().st_size
        if ref.start in source.at and source.skip_kills < n_reads <= source.times:
            if source.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise source.error(f"cannot read rows {ref.start} to {ref.stop}")
        return super().read(ref)


@dataclass(frozen=True)
class Shuffled:
    """Groups of `size` refs in a seeded order, rows permuted."""

    size: int = 4
    seed: int = 0

    def groups(self, refs, pass_index):
        drawn = np.random.default_rng([self.seed, pass_index]).permutation(len(refs))
        return [list(map(int, drawn[i : i + self.size])) for i in range(0, len(refs), self.size)]

    def permutation(self, n_rows, pass_index, group_index):
        return np.random.default_rng([self.seed, pass_index, group_index]).permutation(n_rows)


def dense(X):
    if not isinstance(X, Csr):
        return X
    out = np.zeros(X.shape, X.data.dtype)
    out[np.repeat(np.arange(len(out)), np.diff(X.indptr)), X.indices] = X.data
    return out


def gram_fold(p):
    """Gram matrix and count in float64: its bits change with the order of merges."""
    return Fold(partial(_gram_start, p), _gram_step, _gram_merge, dict)


def _gram_start(p):
    return {"gram": np.zeros((p, p)), "n": 0}


def _gram_step(state, chunk):
    X = dense(chunk.X).astype(np.float64)
    state["gram"] += X.T @ X
    state["n"] += chunk.n_rows
    return state


def _gram_merge(a, b):
    a["gram"] += b["gram"]
    a["n"] += b["n"]
    return a


def sgd_fold(w, rate=0.1, row_state=None):
    """Least squares by gradient steps in the order of the chunk; counts visits of each row."""
    rows = () if row_state is None else (RowState(row_state, "float64", 1),)
    return Fold(partial(np.array, w, copy=True), partial(_sgd_step, rate, row_state), rows=rows)


def _sgd_step(rate, row_state, w, chunk):
    X = dense(chunk.X).astype(np.float64)
    for i in range(len(X)) if chunk.order is None else chunk.order:
        w += rate * (chunk.y[i] - X[i] @ w) * X[i]
        if row_state is not None:
            chunk.state[row_state][i] += w[0]
    return w


def open_run(source, checkpoint, identity=None, budget=1 << 30, threads=2):
    plan = make_plan(source, [Needs("read", 1000)], budget=budget, threads=threads)
    identity = {"parameters": {"C": 1.0}, "data": {"sizes": [1, 2]}} | (identity or {})
    return Run(source, plan, name="fit", identity=identity, checkpoint=checkpoint)


def same(chunk):
    return chunk


def program(run):
    """A fit with every kind of read; what it returns depends on every bit of them."""
    if run.finished is not None:
        return run.finished
    gram = run.fold(gram_fold(3), name="summary")["gram"]
    scratch, also = run.cache(
        None, RowForm(same, 3, "float32"), also=gram_fold(3), in_memory=False, name="cache"
    )
    loop = run.restore("loop", {"t": 0, "w": np.linalg.solve(gram, also["gram"][0])})
    w = loop["w"]
    for t in range(loop["t"], 4):
        fold = sgd_fold(w, row_state="sum")
        w = run.sweep(fold, None, Shuffled(), pass_index=t, name=f"sweep-{t}")
        check = run.fold(gram_fold(3), scratch, name=f"check-{t}")
        run.record(t=t, w=w.copy(), n_passes=run.n_passes)
        if t % 2:
            run.commit("loop", {"t": t + 1, "w": w})
    sums = np.fromfile(run.row_state("sum").read_path)
    result = {"w": w, "sums": sums, "gram": check["gram"], "n_passes": run.n_passes}
    run.finish(result)
    return result


def assert_same(a, b):
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key])
