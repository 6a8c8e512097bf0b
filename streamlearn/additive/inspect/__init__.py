"""Views of a fitted additive model: terms, densities, pictures."""
