"""Watching: rows of a run, counters for Prometheus, spans for OpenTelemetry."""
