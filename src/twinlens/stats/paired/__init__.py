"""Ratios between points that took turns in slices."""
