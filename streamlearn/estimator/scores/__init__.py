"""Scores of fitted models by name, in shared reads, and the choice of parameters by them."""
