"""Metrics of a run under load, from its request rows."""
