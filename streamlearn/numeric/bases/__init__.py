"""Basis functions of one column: B-splines, Fourier and Hermite functions, penalties."""
