"""Fitted models in forms that run without this library: a scoring table, SQL, ONNX."""
