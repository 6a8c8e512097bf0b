"""Processes forked from one that has loaded libraries and kernels: a tenth of a second each.

Each ends with the process that runs the tests, however that ends.
"""

import multiprocessing
import os
import threading
import warnings

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["distributed", "promises.loaded"])


def fork(**job):
    """(exit code, report) of the job of `fit_job`; the report is None where a signal ended it."""
    process, pipe = started(_report, job)
    try:
        report = pipe.recv()
    except EOFError:
        report = None
    process.join()
    pipe.close()
    return process.exitcode, report


def started(target, *arguments):
    """A process that runs ``target(*arguments, pipe)``, and this end of the pipe."""
    mine, others = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_run, args=(target, arguments, others), daemon=True)
    process.start()
    others.close()
    return process, mine


def report_of(**job):
    """The job's report; its error is on standard error."""
    code, report = fork(**job)
    assert code == 0
    return report


def _run(target, arguments, pipe):
    end_with_the_tests()
    target(*arguments, pipe)


def _report(job, pipe):
    from promises.fit_job import main

    warnings.simplefilter("ignore")
    pipe.send(main(job))


def end_with_the_tests():
    """However the tests end, this process ends too."""
    tests = multiprocessing.parent_process()
    threading.Thread(target=lambda: (tests.join(), os._exit(1)), daemon=True).start()
