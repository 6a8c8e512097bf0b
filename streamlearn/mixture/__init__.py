"""Mixtures of linear SVMs: a gate that shares the rows out, a linear expert for each share."""
