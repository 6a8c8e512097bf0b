"""Files of a run that later reads use instead of the source: rows, row state, their folder."""
