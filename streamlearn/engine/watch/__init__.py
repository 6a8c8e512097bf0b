"""View of a fit that is running, for people: progress bars and the status of a checkpoint."""
