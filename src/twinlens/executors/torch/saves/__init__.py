"""Saves while training goes on: where they lie, how they are written and read back, and what each took."""
