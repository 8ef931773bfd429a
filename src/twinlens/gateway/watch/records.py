"""Rows of the gateway's traffic: a run like any other, written as requests end."""

from __future__ import annotations

from twinlens.gateway.outcome import Outcome


class Records:
    """Takes each outcome once."""

    def add(self, outcome: Outcome) -> None:
        """Write it down."""

    def close(self) -> None:
        """End the run."""
