"""Files by path or URL: which there are, how they are opened, and trees of arrays in one file."""
