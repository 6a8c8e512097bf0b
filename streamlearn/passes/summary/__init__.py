"""The summary of a table in one read: columns, target, quantiles, levels of strings."""
