"""What one read of the rows computes: folds."""
