"""Answers: bytes understood as HTTP, as events, and as tokens."""
