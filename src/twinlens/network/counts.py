"""Counters of the event loop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """`retries`: requests sent again because an idle connection had just been closed.

    `gather_ns`: the longest that the loop has waited on purpose, for reads to come together.
    """

    reads: int = 0
    gather_ns: int = 0
    connects: int = 0
    retries: int = 0
    unstamped_connections: int = 0
