"""zarr stores of formats 2 and 3: dense arrays, AnnData's sparse groups, columns beside them."""
