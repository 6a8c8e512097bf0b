"""ShareBoost: few columns, shared by all classes, out of very many."""
