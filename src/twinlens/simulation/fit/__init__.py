"""Fit: a machine learnt from measured runs, from theory, or read from a table of the user's."""
