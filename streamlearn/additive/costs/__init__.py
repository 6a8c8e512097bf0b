"""The costs of a fit: its sizes, the solver that they allow, and what each phase needs."""
