"""Runs, alone or as points: what was measured, as blocks that every way of showing them draws."""
