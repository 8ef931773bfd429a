"""Checks that the load generator was not the bottleneck."""
