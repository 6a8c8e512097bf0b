"""Numba kernels and formulas that several families share."""
