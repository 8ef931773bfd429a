"""Points of one repeat that take turns in slices."""
