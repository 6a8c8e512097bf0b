"""What a person sees of a fit that is running: progress bars and the status of a checkpoint."""
