"""Rows at risk: a row for every interval, or ordered step, that a row of a table enters."""
