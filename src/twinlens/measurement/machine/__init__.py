"""This machine: hardware, software, telemetry, energy, other processes."""
