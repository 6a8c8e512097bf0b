"""Counts of the values of columns: of dense, of few and of sparse rows, and their quantiles."""
