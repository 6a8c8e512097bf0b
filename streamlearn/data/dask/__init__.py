"""dask arrays, dataframes and bags: partitions that others compute."""
