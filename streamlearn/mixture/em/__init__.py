"""Expectation-maximisation: its start, its iterations by reads and online, and hinge duals."""
