"""Colours of all pictures: blue is positive, whatever is drawn."""

POSITIVE, NEGATIVE = "tab:blue", "tab:orange"
SIGNED = "RdBu"
"""Colour map from the most negative to the most positive number."""
TWO_CLASSES = "coolwarm_r"
"""Colour map of codes of classes, the second of two in blue."""
