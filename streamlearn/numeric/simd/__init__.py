"""Vector instructions the compiler does not find by itself, with plain bodies of equal bits."""
