"""Limits: keys, and what each may ask, use and spend."""
