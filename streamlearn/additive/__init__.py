"""Additive models: smooth curves, one a column; estimators, embeddings, kernels."""
