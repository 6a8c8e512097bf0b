"""The experiments of ShareBoost (Shalev-Shwartz 2011)."""
