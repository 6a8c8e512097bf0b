"""A verb in a process of its own: ``python verb_job.py '{"verb": ..., "small": ..., ...}'``.

It runs once on the small table, which loads all libraries and kernels that it needs, and then on
the awkward one, under a budget.  Prints one JSON line: the peak over what was resident before, the
refusal if there was one.
"""

import json
import sys
import warnings


def main(job):
    import dask
    from fit_job import reset_peak, resident_bytes
    from verbs import Cell

    import streamlearn as sl
    from streamlearn.engine.memory import peak_resident_bytes
    from streamlearn.numeric.malloc import return_freed_blocks, trim_heaps

    return_freed_blocks()
    with sl.config_context(**job["config"]), dask.config.set(num_workers=job.get("threads", 2)):
        try:
            cell = Cell(job["verb"], job["small"], job["folder"])
            cell.run(job["small"], "small")
        except Exception as error:
            return {"refused": f"{type(error).__name__}: {error}", "small": True}
        trim_heaps()
        reset_peak()
        baseline = resident_bytes()
        refused = None
        try:
            cell.run(job["path"], "out")
        except sl.StreamlearnError as error:
            refused = f"{type(error).__name__}: {error}"
        return {"over_baseline": peak_resident_bytes() - baseline, "refused": refused}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(json.loads(sys.argv[1]))))
