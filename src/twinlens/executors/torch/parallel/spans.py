"""Spans of time as (begin, end): how much of it at least one covers. Pure."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]


def covered(spans: Iterable[Span]) -> float:
    """Time that at least one of some spans covers."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def outside(spans: Iterable[Span], others: Iterable[Span]) -> float:
    """Time that spans cover and none of the others does."""
    known = list(others)
    return covered([*spans, *known]) - covered(known)
