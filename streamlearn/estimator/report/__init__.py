"""A fitted model as one page to look at: its facts, its pictures, and what it does on data."""
