"""Recorded traffic: reading a trace file, row by row."""
