"""Runs grouped by operating point, and the summary of a served run."""
