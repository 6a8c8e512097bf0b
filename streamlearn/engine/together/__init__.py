"""Fits that take turns, and the reads that serve several of them."""
