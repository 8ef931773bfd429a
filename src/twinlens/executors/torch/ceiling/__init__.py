"""Measured ceilings of a device: the rates that torch sustains on it."""
