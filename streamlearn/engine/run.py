"""One fit in progress: reads of the data, loop state, and what they cost."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba.core.errors import NumbaError

from ..config import get_config
from ..data.row_ranges import Refs
from ..data.source import Source
from ..errors import CheckpointError, StreamlearnError
from ..numeric.malloc import return_freed_blocks, trim_heaps
from ..passes.fold import Fold
from .blas import one_blas_thread
from .checkpoint.lanes_done import CompletedLanes, CompletedSegments
from .checkpoint.log import Log
from .checkpoint.stopping import TimeLimit
from .checkpoint.store import Checkpoint
from .driver import Task, fold_in_sequence
from .executor import Engine, count_threads, open_engine
from .groups import VisitOrder, cut_partitions, cut_segments, draw_groups, fold_segment
from .lanes import Job, cut_lanes, fold_lane
from .memory import MemorySampler
from .plan import Plan
from .planning import Counted, plan_of_resume
from .scratch.blocks import RowForm, ScratchSource, cache_fold
from .scratch.folder import ScratchFolder
from .scratch.in_memory import InMemoryRows
from .scratch.row_state import RowFile, RowStates
from .together.lane_read import LaneRead
from .together.lockstep import clock_of, current_turn, read_lanes
from .watch.progress import Progress

State = TypeVar("State")
Result = TypeVar("Result")


class Visit(NamedTuple):
    """Order and cut of a sweep."""

    order: VisitOrder
    pass_index: int
    n_partitions: int
    """Parts that begin at `start` each and are merged; 1: one after the other."""


MADE_BY_WRONG_CONTENT = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NumbaError,
    StopIteration,
    TypeError,
    ValueError,
)
"""Errors of an algorithm that is given a kept result of another form than its read gives."""


class Run:
    """A context manager around one fit.

    Ordinary Python goes between its reads.  With a checkpoint, a fit that was killed is resumed by
    running the same Python again: finished reads return their kept results at once.

    Parameters
    ----------
    source : Source
        What reads go over unless they name another.
    plan : Plan
        From `make_plan`.  A resumed run goes by the plan kept in its checkpoint: see `plan`.
    name : str
        Short name of the fit: task names begin with it.
    identity : dict
        Estimator, parameters and data fingerprint: a checkpoint of another identity is refused.
    checkpoint : path or URL, optional
        Where finished reads are kept.
    scheduler, progress : optional
        Default as configured.
    max_seconds : float, optional
        A read that begins or goes on later than this is given up with `TimeLimitError`.
    on_record : callable, optional
        Called with each record of the history.
    """

    def __init__(
        self,
        source: Source,
        plan: Plan,
        *,
        name: str,
        identity: Mapping[str, object],
        checkpoint: str | os.PathLike[str] | None = None,
        scheduler: object = None,
        progress: bool | None = None,
        max_seconds: float | None = None,
        on_record: Callable[[dict[str, object]], None] | None = None,
    ) -> None:
        config = get_config()
        self.name = name
        self.plan = plan
        self._source = source
        self._identity = identity
        self._place = checkpoint
        self._scheduler = config.scheduler if scheduler is None else scheduler
        self._progress = Progress(shown=config.progress if progress is None else progress)
        self._token = secrets.token_hex(4)
        self._worker_peak = 0
        self._resumed = False
        self._on_record = on_record
        self.counted: Counted | None = None
        """Rows that the source gave to a read, for plans from then on."""
        self._time = TimeLimit(name, max_seconds, checkpoint)
        self._turn = current_turn()

    def __enter__(self) -> Run:
        with ExitStack() as stack:
            checkpoint = None
            if self._place is not None:
                checkpoint = Checkpoint(self._place, self._identity)
                if checkpoint.manifest["finished"] is None:
                    stack.enter_context(checkpoint.locked())
                self._resumed = not checkpoint.is_new
                self.plan = plan_of_resume(checkpoint, self.plan)
            if self._turn is not None:
                stack.callback(self._turn.closed, self)
                self._turn.go_by(self, self.plan)
            self._log = Log(checkpoint, self._source.passes_before, clock_of(self._turn))
            return_freed_blocks()
            stack.enter_context(one_blas_thread())
            self._sampler = stack.enter_context(MemorySampler())
            stack.callback(self._progress.close)
            self._scratch = ScratchFolder()
            stack.callback(self._scratch.remove)
            self._engine: Engine = open_engine(self._scheduler, self.plan.lanes_in_flight)
            stack.callback(lambda: self._engine.close())
            self._rows = RowStates(checkpoint, self._scratch)
            self._open = stack.pop_all()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._open.close()
        if self._resumed and isinstance(error, MADE_BY_WRONG_CONTENT):
            if not isinstance(error, StreamlearnError):
                raise CheckpointError(
                    f"the fit that went on from checkpoint {self._place} failed ({error!r}): "
                    "either what is kept there is not what this fit wrote, or the fit fails by "
                    "itself; run it without this checkpoint to see which, or remove it"
                ) from error

    @property
    def source(self) -> Source:
        """The source, read in slices no larger than planned."""
        return self.planned(self._source)

    def read_from(self, source: Source) -> None:
        """Let reads that name no source go over this one: other features of the same rows."""
        self._source = source

    def replan(self, plan: Plan) -> None:
        """Go by another plan from the next read on: the data told more of what the fit needs.

        A checkpoint keeps the plan the fit began with, from which a resumed fit replans alike.
        """
        self._engine.close()
        if self._turn is not None:
            self._turn.go_by(self, plan)
        self.plan = plan
        self._token = secrets.token_hex(4)
        self._engine = open_engine(self._scheduler, plan.lanes_in_flight)

    @property
    def n_threads(self) -> int:
        """Threads of this process that may compute between reads."""
        return count_threads("threads") if self._engine.is_cluster else self._engine.n_slots

    @property
    def history(self) -> list[dict[str, object]]:
        """The records so far."""
        return self._log.history

    @property
    def n_passes(self) -> int:
        return self._log.counters.n_passes

    @property
    def n_served(self) -> int:
        """Reads among them that one made for another fit served: see `together.lockstep`."""
        return self._log.counters.n_served

    @property
    def rows_read(self) -> int:
        return self._log.counters.rows_read

    @property
    def bytes_read(self) -> int:
        """Bytes the reads took from their stores."""
        return self._log.counters.bytes_read

    @property
    def seconds(self) -> float:
        """Time spent; of attempts that were killed, up to what they kept."""
        return self._log.counters.seconds

    @property
    def peak_memory_bytes(self) -> int:
        """Highest resident memory of this process, or of a worker, during the run."""
        return max(self._sampler.peak_bytes, self._worker_peak)

    @property
    def memory_before_bytes(self) -> int:
        """Resident memory of this process when the run began; 0 if workers of a cluster read."""
        return 0 if self._worker_peak else self._sampler.bytes_before

    @property
    def finished(self) -> Any:
        """Result that `finish` kept in the checkpoint; None: the fit must run."""
        return self._log.finished()

    def finish(self, result: object) -> None:
        """Keep the result of the whole fit; a run with this checkpoint will find it `finished`."""
        self._log.finish(result)

    def record(self, **fields: object) -> None:
        """Append one record to `history`, and to the checkpoint's."""
        self._log.record(fields)
        if self._on_record is not None:
            self._on_record(fields)

    def restore(self, key: str, default: object = None) -> Any:
        """The loop state last committed under `key`, or `default`.  Call once, before the loop."""
        return self._log.restore(key, default)

    def commit(self, key: str, state: object) -> None:
        """Keep the loop state; the results of reads since `restore` are dropped."""
        self._log.commit(key, state)

    def row_state(self, name: str) -> RowFile:
        """File of the current generation of a row state."""
        return self._rows.current(name)

    def fold(self, fold: Fold[State, Result], source: Source | None = None, *, name: str) -> Result:
        """One read of all rows: in lanes if the fold can merge, else in row order."""
        result: Result = self._read(fold, source, name, None)
        return result

    def sweep(
        self,
        fold: Fold[State, Result],
        source: Source | None = None,
        order: VisitOrder | None = None,
        *,
        pass_index: int = 0,
        n_partitions: int = 1,
        name: str,
    ) -> Result:
        """One read in the order that `order` draws for this pass, a group of refs at a time.

        In `n_partitions`, at most one a group, which a fold with `merge` brings together.
        """
        if order is None:
            raise ValueError("sweep needs an order; for a read in row order use fold")
        visit = Visit(order, pass_index, n_partitions)
        result: Result = self._read(fold, source, name, visit)
        return result

    @property
    def keeps_rows(self) -> bool:
        """Whether memory has room for `cache`; workers of a cluster have none in common."""
        return self.plan.keeps_rows and not self._engine.is_cluster

    def cache(
        self,
        source: Source | None,
        form: RowForm | None = None,
        *,
        also: Fold[State, Result] | None = None,
        in_memory: bool | None = None,
        name: str,
    ) -> tuple[InMemoryRows | ScratchSource, Result | None]:
        """One read that stores the rows in a form for later reads, and folds them with `also`.

        They go to memory if the plan has room, else to scratch; both give the same bits.  A
        checkpoint keeps neither: a resumed run fills memory as it reads on, and reads once more for
        scratch.

        Parameters
        ----------
        form : RowForm, optional
            Default: the rows as they are read, row by row on disk.
        also : Fold, optional
            What to compute meanwhile, of the rows in this form.
        in_memory : bool, optional
            Where the rows go whatever the plan says.

        Returns
        -------
        rows : Source
            The rows as they were stored, with the refs of `source`.
        result
            Of `also`; None without.
        """
        if also is not None and also.rows:
            raise ValueError("a fold computed while rows are cached may not use row state")
        source = self._reachable(source)
        if form is None:
            form = RowForm(None, source.n_features, source.dtype.name, "rows")
        if self.keeps_rows if in_memory is None else in_memory:
            return self._cache_in_memory(InMemoryRows(source, form), also, name)
        return self._cache_in_scratch(source, form, also, name)

    def planned(self, source: Source) -> Source:
        """The source in slices no larger than the plan's."""
        rows, most = source.slice_rows, self.plan.slice_rows
        if rows is None or most is None or rows <= most:
            return source
        return source.with_slice_rows(most)

    def _cache_in_memory(
        self, rows: InMemoryRows, also: Fold[State, Result] | None, name: str
    ) -> tuple[InMemoryRows, Result | None]:
        if also is not None:
            return rows, self.fold(also, rows, name=name)
        entry = self._log.replay("read", name)
        rows.fill(self.plan.lanes_in_flight)
        if entry is None:
            self._log_read(rows, name, None)
        return rows, None

    def _cache_in_scratch(
        self, source: Source, form: RowForm, also: Fold[State, Result] | None, name: str
    ) -> tuple[ScratchSource, Result | None]:
        entry = self._log.replay("read", name)
        folder = str(self._scratch.subfolder("cache"))
        if not source.sparse:
            each = form.n_columns * np.dtype(form.dtype).itemsize
            self._scratch.require(source.n_physical_rows * each)
        self._engine.require_shared(folder)
        fold = cache_fold(folder, form, also)
        state, _ = self._compute(fold, source, name, None, keep=False)
        result = None if also is None else also.finish(state["also"])
        if entry is None:
            self._log_read(source, name, result)
        return ScratchSource(folder, source, state["blocks"], form), result

    def _read(
        self, fold: Fold[State, Result], source: Source | None, name: str, visit: Visit | None
    ) -> Result:
        entry = self._log.replay("read", name)
        if entry is not None:
            return self._log.stored(entry)
        source = self._reachable(source)
        state, files = self._compute(fold, source, name, visit, keep=True)
        result = fold.finish(state)
        replaced = self._rows.advance(files)
        self._log_read(source, name, result)
        self._rows.remove(replaced)
        return result

    def _compute(
        self,
        fold: Fold[State, Result],
        source: Source,
        name: str,
        visit: Visit | None,
        *,
        keep: bool,
    ) -> tuple[State, tuple[RowFile, ...]]:
        """Run the tasks of one read: the merged state, and the row state they wrote."""
        self._may_go_on()
        checkpoint, engine = self._log.checkpoint, self._engine
        keep = keep and self._rows.can_keep_parts(fold.rows)
        partial = checkpoint.manifest["partial"] if keep and checkpoint is not None else None
        files = self._rows.files(fold.rows, partial)
        for file in files:
            engine.require_shared(os.path.dirname(file.write_path or file.read_path or ""))
        in_partitions = visit is not None and visit.n_partitions > 1
        at_once = self.plan.partitions_at_once if in_partitions else self.plan.lanes_in_flight
        job = Job(
            f"{self.name}-{name}",
            source,
            fold,
            files,
            (f"{self._token}-{at_once}", at_once) if engine.is_cluster else None,
            durable=checkpoint is not None,
        )
        refs = source.refs()
        if visit is None:
            tasks = [Task[State](fold_lane, (lane,), lane) for lane in cut_lanes(refs)]
        else:
            groups = draw_groups(refs, visit.order, visit.pass_index)
            if in_partitions:
                parts = cut_partitions(groups, visit.n_partitions)
            else:
                # rows that a state holds do not travel: a lost worker costs the read
                parts = cut_segments(groups, whole=engine.is_cluster and fold.stored is not None)
            how = visit.order, visit.pass_index
            tasks = [Task[State](fold_segment, (part, *how), part.refs) for part in parts]
        if not tasks:
            return fold.start(), files
        cut = [len(refs), len(tasks)]
        if partial is not None and partial["cut"] != cut:
            partial = None  # made with other slices: its states would not fit in
        keeper = checkpoint if keep else None
        if not source.in_memory:
            trim_heaps()  # what was freed between reads is in the way of chunks: 14 MiB of bases
        with self._progress.read(job.name, len(tasks)) as bar:
            if in_partitions or (visit is None and fold.merge is not None):
                done: CompletedLanes[State] = CompletedLanes(
                    keeper, partial, name, cut, files, bar, engine.result
                )
                made = source.made_of() if visit is None else None
                last = read_lanes(
                    LaneRead(job, tasks, engine, self.plan, done, self._may_go_on, made), at_once
                )
            else:
                so_far = CompletedSegments(keeper, partial, name, cut, files, bar, fold.stored)
                last = fold_in_sequence(
                    engine,
                    job,
                    tasks,
                    first=so_far.n_done,
                    state=so_far.state,
                    on_done=so_far,
                    may_go_on=self._may_go_on,
                )
        trim_heaps()  # 5 MiB after the footers of 600 row groups
        if engine.is_cluster:
            self._worker_peak = max(self._worker_peak, last.peak_bytes)
        return last.state, files

    def _may_go_on(self) -> None:
        self._time.check()
        if self._turn is not None:
            self._turn.check()

    def _log_read(self, source: Source, name: str, result: object) -> None:
        n_rows = int(Refs.of(source.refs()).sizes.sum())
        served = self._turn is not None and self._turn.was_served()
        self._log.add_read(name, result, n_rows, source.drain_nbytes(), served=served)

    def _reachable(self, source: Source | None) -> Source:
        """The source as the tasks can read it."""
        return self.planned(self._source if source is None else source)
