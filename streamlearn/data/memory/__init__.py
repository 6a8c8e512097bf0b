"""Tables in this process's memory or raw files: numpy, scipy.sparse, frames, Arrow, streams."""
