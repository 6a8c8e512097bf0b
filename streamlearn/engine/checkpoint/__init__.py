"""Durable record of what a fit has finished, so that a later run goes on from there."""
