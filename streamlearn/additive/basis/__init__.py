"""The bases of a table's columns, and kernels that evaluate them on the fly."""
