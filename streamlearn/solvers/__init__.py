"""Loops over passes that several families share."""
