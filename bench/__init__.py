"""One file per claim; ``python -m bench memory`` and ``python -m bench speed`` print the tables."""
