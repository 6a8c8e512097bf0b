"""The tables of projection pursuit and boosted projections (Zhang 2009)."""
