"""Slices of work for points that take turns, and the order of the turns."""
