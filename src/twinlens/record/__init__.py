"""Records of a run: rows, telemetry, findings, and the run folder on disk."""
