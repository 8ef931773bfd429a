"""Measured facts of a backend: its law, capacity, joules, and the executor that it was measured on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """The operating points of one server, from a measured run or study."""

    runs: tuple[str, ...]
