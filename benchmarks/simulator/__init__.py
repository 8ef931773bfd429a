"""Benchmarks of the simulator: its speed, and real work that it has to agree with."""
