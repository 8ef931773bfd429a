"""Schedules: each says when its next request is due."""
