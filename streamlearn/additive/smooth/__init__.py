"""Smoothness of each term: chosen from the curvature of all rows, and what follows from it."""
