"""Dual coordinate descent, from disk and from rows in memory."""
