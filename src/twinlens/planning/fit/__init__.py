"""Fit: the memory that serving or training takes on each device, against what the device has."""
