"""Samples taken beside the rows: telemetry of the machine, and the server's own metrics."""
