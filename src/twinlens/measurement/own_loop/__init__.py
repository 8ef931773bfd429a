"""Somebody's own training loop as a run: its folder, rows, telemetry and facts, written while the loop goes on."""
