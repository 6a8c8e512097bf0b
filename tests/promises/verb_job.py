"""Verbs in a process of their own: ``python verb_job.py '{"verbs": [...], "small": ..., ...}'``.

Each verb runs once on the small table, which loads all libraries and kernels that it needs, and
then on the awkward one, under a budget.  Prints a JSON line a verb: the peak over what was resident
before, the refusal if there was one.
"""

import json
import sys
import warnings
from pathlib import Path


def main(job):
    import dask

    import streamlearn as sl

    with sl.config_context(**job["config"]), dask.config.set(num_workers=2):
        for verb in job["verbs"]:
            print(json.dumps({"verb": verb, **measured(verb, job)}), flush=True)


def measured(verb, job):
    from promises.fit_job import reset_peak, resident_bytes
    from promises.verbs import Cell

    import streamlearn as sl
    from streamlearn.engine.memory import peak_resident_bytes
    from streamlearn.numeric.malloc import return_freed_blocks, trim_heaps

    return_freed_blocks()
    try:
        cell = Cell(verb, job["small"], job["folder"])
        cell.run(job["small"], f"{verb}-small")
    except sl.StreamlearnError as error:
        return {"over_baseline": 0, "refused": f"{type(error).__name__}: {error}"}
    trim_heaps()
    reset_peak()
    baseline, refused = resident_bytes(), None
    try:
        cell.run(job["path"], verb)
    except sl.StreamlearnError as error:
        refused = f"{type(error).__name__}: {error}"
    return {"over_baseline": peak_resident_bytes() - baseline, "refused": refused}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    warnings.simplefilter("ignore")
    main(json.loads(sys.argv[1]))
