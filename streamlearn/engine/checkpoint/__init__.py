"""What a fit has finished, durably, so that a later run goes on from there."""
