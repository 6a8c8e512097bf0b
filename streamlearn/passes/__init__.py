"""Folds: computations of one read of the rows."""
