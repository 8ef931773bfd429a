"""Schedules of requests: pure and seeded, without a clock of their own."""
