"""Rows elsewhere: stores, one file a format, and the Dataset that chooses columns and rows."""
