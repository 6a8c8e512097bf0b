"""Newton's method for smooth losses: curvature, its products with vectors, steps from a sample."""
