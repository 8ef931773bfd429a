"""Recorded traffic, read from a trace file row by row."""
