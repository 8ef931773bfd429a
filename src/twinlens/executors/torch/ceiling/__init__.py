"""Measured ceilings of this device through torch."""
