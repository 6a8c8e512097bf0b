"""Rows written out: parts that many tasks write, published whole or not at all."""
