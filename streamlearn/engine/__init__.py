"""Who runs a pass: lanes, memory plan, dask, row-aligned state, checkpoints, scratch."""
