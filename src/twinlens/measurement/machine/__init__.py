"""This machine: hardware, software, telemetry, other processes."""
