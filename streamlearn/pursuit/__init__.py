"""Sparse projection pursuit: sums of ridge functions, and boosted histograms of projections."""
