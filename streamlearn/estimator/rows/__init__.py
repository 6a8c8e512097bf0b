"""Rows, strings, targets, weights and streams of a user, checked and as a fit takes them."""
