"""Choosing C and the number of basis functions by cross-validation in shared reads."""
