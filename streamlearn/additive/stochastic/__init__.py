"""Averaged stochastic gradients: PEGASOS and learning from a stream."""
