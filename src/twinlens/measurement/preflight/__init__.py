"""Checks before anything is started: what cannot run, and what does not fit in memory."""
