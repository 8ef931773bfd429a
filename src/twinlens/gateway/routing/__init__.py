"""Routing: what was measured of each backend, what it would take now, and the choice with its reasons."""
