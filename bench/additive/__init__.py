"""The tables of the additive-spline paper (Maji 2012)."""
