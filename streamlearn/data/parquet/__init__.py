"""Parquet files as one store: footers, row groups, filters, decoding."""
