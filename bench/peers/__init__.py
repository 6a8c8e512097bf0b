"""One file per rival: `prepare(**options)` loads, `run(report, **options)` is what is measured.

`run` puts its seconds into `report` and may return a function that computes the scores afterwards,
when the peak of memory has been taken.
"""
