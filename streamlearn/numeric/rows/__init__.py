"""Forms in which kernels see rows: strided dense rows, tiles of columns, float64 blocks."""
