"""The toys and tables of mixtures of linear SVMs (Fu 2010)."""
