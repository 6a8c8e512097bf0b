"""The scikit-learn surface that all families share."""
