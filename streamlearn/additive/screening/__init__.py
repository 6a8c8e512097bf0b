"""Search for pairs of columns that act together: tables of slopes and curvatures, and scores."""
