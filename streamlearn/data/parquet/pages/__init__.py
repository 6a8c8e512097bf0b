"""Columns of numbers decoded from parquet pages by kernels; this room can be removed."""
