"""Selection of the next feature: the candidates of each kind, and the reads that score them."""
