"""The engine that runs passes: lanes, memory plan, dask, row state, checkpoints, scratch."""
