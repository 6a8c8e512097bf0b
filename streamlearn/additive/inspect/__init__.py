"""What a fitted additive model says of itself: terms, densities, pictures."""
