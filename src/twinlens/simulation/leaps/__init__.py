"""Leaps: ways to pass equal steps of an engine together, each giving what the step loop gives."""
