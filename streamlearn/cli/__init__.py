"""The command line: describe, plan, fit, predict, evaluate, plot, report, demonstrate."""

from . import inspecting, serving, showing, training
from .group import main

__all__ = ["inspecting", "main", "serving", "showing", "training"]
