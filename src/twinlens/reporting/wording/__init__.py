"""Findings in words: templates from the heads of pages, and functions for what takes logic, for every output alike."""
