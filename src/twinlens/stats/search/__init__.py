"""The search for the highest rate within an SLO."""
