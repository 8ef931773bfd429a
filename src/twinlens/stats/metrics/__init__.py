"""Metrics: pure functions of rows, one file per lens."""
