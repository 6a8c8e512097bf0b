"""Which pairs of columns act together: tables of slopes and curvatures, and their scores."""
