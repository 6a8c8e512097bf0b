"""Verbs in a process of their own, forked from one that is warm.

A run on the small table loads all libraries and kernels that a verb needs; then it runs on the
awkward one, under a budget.  Answers with a dict a verb: the peak over what was resident before,
the largest peak that its plans allowed, the refusal if there was one.
"""

import warnings
from contextlib import contextmanager
from unittest.mock import patch

import pytest

REFUSALS = (ValueError, RuntimeError, OSError, MemoryError)
"""What refusals are, by their kinds; the test looks at what each says."""
DRAW_POINTS = ("MixtureDisplay.from_estimator", "PrototypeDisplay.plane")
"""Pictures of one point a row, for which a dataset is refused before it is read."""


def main(job, pipe):
    """The answers for ``job["verbs"]``, through the pipe."""
    import dask

    import streamlearn as sl

    warnings.simplefilter("ignore")
    with sl.config_context(**job["config"]), dask.config.set(num_workers=2):
        pipe.send([{"verb": verb, **measured(verb, job)} for verb in job["verbs"]])


def measured(verb, job):
    from promises.fit_job import reset_peak, resident_bytes
    from promises.verbs import Cell

    from streamlearn.engine.memory import peak_resident_bytes
    from streamlearn.numeric.malloc import return_freed_blocks, trim_heaps

    return_freed_blocks()
    try:
        cell = Cell(verb, job["small"], job["folder"], job["features"])
    except REFUSALS as error:  # the model that the verb asks cannot be had
        return refusal(error)
    if verb in DRAW_POINTS:
        # a column with missing values is two features, which no map has
        with pytest.raises((TypeError, ValueError), match="in memory|map of 2") as refused:
            cell.run(job["path"], verb)
        return refusal(refused.value)
    try:
        with planned_peaks():  # the modules that it looks at are there before the baseline
            cell.run(job["small"], f"{verb}-small")
    except REFUSALS as error:
        return refusal(error)
    trim_heaps()
    reset_peak()
    baseline, refused = resident_bytes(), None
    with planned_peaks() as planned:
        try:
            cell.run(job["path"], verb)
        except REFUSALS as error:
            refused = refusal(error)["refused"]
    over = peak_resident_bytes() - baseline
    return {"over_baseline": over, "planned": max(planned, default=0), "refused": refused}


def refusal(error):
    return {
        "over_baseline": 0,
        "planned": 0,
        "refused": f"{type(error).__name__}: {error}",
    }


@contextmanager
def planned_peaks():
    """The peaks that plans allowed: of runs, as they began or were planned anew, and of several."""
    from streamlearn.engine.run import Run
    from streamlearn.engine.together.lockstep import Lockstep

    peaks, enter, replan, together = [], Run.__enter__, Run.replan, Lockstep.run

    def entered(run):
        found = enter(run)
        peaks.append(run.plan.peak_bytes)
        return found

    def replanned(run, plan):
        peaks.append(plan.peak_bytes)
        replan(run, plan)

    def ran(lockstep, *given, **options):
        found = together(lockstep, *given, **options)
        peaks.append(lockstep.peak_bytes)
        return found

    with (
        patch.object(Run, "__enter__", entered),
        patch.object(Run, "replan", replanned),
        patch.object(Lockstep, "run", ran),
    ):
        yield peaks
