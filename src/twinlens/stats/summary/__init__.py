"""Runs grouped by operating point, the summary of a served run, and the choice among policies."""
