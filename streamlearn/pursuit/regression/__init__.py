"""Projection pursuit regression: ridge functions added one after the other."""
