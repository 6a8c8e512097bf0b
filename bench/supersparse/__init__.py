"""Faces, regression, compression and scale of super-sparse machines (Biggio 2015)."""
