"""Checks on one run, each of which may give findings."""
