"""Super-sparse machines: a few virtual prototypes, placed anywhere, instead of support vectors."""
