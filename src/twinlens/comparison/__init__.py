"""Comparison: what may be compared, how large the effect is, and what it can be attributed to."""
