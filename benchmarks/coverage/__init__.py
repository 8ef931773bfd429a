"""How often intervals hold the truth, by simulation: `python -m benchmarks.coverage`."""
