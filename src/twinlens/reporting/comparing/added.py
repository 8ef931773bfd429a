"""Differences of what requests take at one address and at another, by turns: a table of them, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.document.block import Block, Line, Table
from twinlens.reporting.document.block import cells as tabled
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.paired.added import Added, Spent
from twinlens.units import digits, scale, show

_HEADS = ("", "more", "95%\ninterval", "n")
_SIDES = ("left", "right", "right", "right")


def added_blocks(added: Added) -> Iterator[Block]:
    """A row a latency; below it what failed on either side and what the process at the first address spent."""
    rows = tuple(tabled(_cells(name, each)) for name, each in added.times.items())
    yield Table(f"{added.above} less {added.below}.", _HEADS, rows, _SIDES, narrow=rows, gap=1)
    for name, each in added.times.items():
        if each.value is None:
            yield Line(f"{METRICS[name].label}: {display.absence(each)}.", "dim")
        elif each.low is None:
            yield Line(f"{METRICS[name].label}: no interval, {display.no_interval(each)}.", "dim")
    yield Line(_failed_words(added))
    yield Line(_spent_words(added.above, added.spent))


def _cells(name: str, difference: Estimate) -> tuple[str, ...]:
    if difference.value is None:
        return (METRICS[name].label, display.ABSENT, display.ABSENT, "")
    divisor, unit = scale(difference.unit, difference.value)
    ends = (difference.low, difference.high)
    low, high = (None if end is None else digits(end / divisor, 3) for end in ends)
    interval = display.ABSENT if low is None else f"{low} to {high} {unit}"
    is_range = difference.level is None and low is not None
    value = digits(difference.value / divisor, 3)
    sign = "" if value.startswith("-") else "+"
    return (METRICS[name].label, f"{sign}{value} {unit}", interval + (" (range)" if is_range else ""),
            str(difference.n or ""))  # fmt: skip


def _failed_words(added: Added) -> str:
    sides = zip((added.above, added.below), added.failed, added.requests, strict=True)
    return "Failed: " + "; ".join(f"{failed:,} of {asked:,} at {name}" for name, failed, asked in sides) + "."


def _spent_words(above: str, spent: Spent) -> str:
    if spent.per_token.value is None:
        return f"Processor time of what listens at {above}: not known, {display.absence(spent.per_token)}."
    token, request = (
        show(each.value, each.unit) + (f" ({bounds})" if (bounds := display.bounds(each)) else "")
        for each in (spent.per_token, spent.per_request)
    )
    return f"{display.clean(spent.name, 30)} at {above} took {token} of processor time a token, {request} a request."
