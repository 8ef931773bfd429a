"""Measurement in real time: studies, runs, and the process that takes them."""
