"""Choice of parameters and scores: cross-validation, metrics by name, sums over shared reads."""
