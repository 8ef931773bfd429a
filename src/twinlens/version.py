"""The version, and that of run.json, in one place that imports nothing."""

__version__ = "0.1.0"
RUN_SCHEMA = 1
"""Of run.json and study.json: a newer one is not read."""
