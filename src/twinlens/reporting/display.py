"""Text for one number with its interval, and for foreign text that cannot do harm."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Validity
from twinlens.units import digits, scale, show

ABSENT = "–"
MARKS: dict[Validity, str] = {"valid": "✓", "provisional": "~", "not valid": "✗"}
STYLES: dict[Validity, str] = {"valid": "green", "provisional": "cyan", "not valid": "yellow"}
_SYMMETRIC = 0.15  # sides that differ by less than this share of the larger are shown as one ±


_MARK = re.compile(r"&#91;(\d+)&#93;(?!\()")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#@])")


def doubt_mark(state: Validity) -> str:
    """The mark before what is not valid or provisional, and a space; "" for what is valid."""
    return "" if state == "valid" else f"{MARKS[state]} "


def clean(text: Any, most: int = 240) -> str:
    """One line of printable text: control characters (terminal escapes, bidirectional marks) left out.

    Whatever came from a file, a model name or a driver passes through here before anything shows it.
    """
    kept = str(text)
    if not kept.isprintable():  # as nearly all text is, and looking at each character takes a hundred times as long
        kept = "".join(
            " " if character.isspace() else character
            for character in kept
            if character.isspace() or unicodedata.category(character)[0] != "C"
        )
    line = " ".join(kept.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def escaped(text: str) -> str:
    """Text that Markdown and HTML leave alone, and that calls nobody: neither @names nor #numbers."""
    safe = _SPECIAL.sub(lambda match: f"&#{ord(match.group()):d};", clean(text, 2000))
    return _MARK.sub(r"[\1]", safe)  # a mark of ours is no link, as nothing in brackets follows it


def clean_end(text: Any, most: int) -> str:
    """The same, but what is too long loses its beginning: run folders and paths end with what tells them apart."""
    line = clean(text, len(str(text)) + 1)
    return line if len(line) <= most else "…" + line[len(line) - most + 1 :]


def clock(stamp: Any) -> str:
    """ "2026-11-20T141200Z" as "2026-11-20 14:12:00 UTC"; anything else as it is."""
    try:
        return datetime.strptime(str(stamp), "%Y-%m-%dT%H%M%SZ").strftime("%Y-%m-%d %H:%M:%S UTC")
    except ValueError:
        return clean(stamp, 40)


def join_names(names: Sequence[str], most: int = 6, between: str = ", ") -> str:
    """The first names of a list, and how many more there are."""
    if len(names) <= most:
        return between.join(names)
    return f"{between.join(names[: most - 1])} and {len(names) - most + 1} more"


def value(estimate: Estimate | None, significant: int = 3) -> str:
    """The value with its unit, or a dash."""
    if estimate is None or estimate.value is None:
        return ABSENT
    return show(estimate.value, estimate.unit, significant)


def bare(estimate: Estimate | None, significant: int = 3) -> str:
    """The value alone, for a column whose head names the unit (rates, losses), or a dash."""
    if estimate is None or estimate.value is None:
        return ABSENT
    return digits(estimate.value, significant)


def spread(estimate: Estimate | None, *, narrow: bool = False) -> str:
    """The interval relative to the value: "±3.1%", or "−2 +9%" where the sides differ.

    `narrow` shows one number in either case, that of the wider side.

    "" where there is none, and where it has no width (a count of bytes that was the same in every run).
    """
    if estimate is None or not estimate.value or estimate.low is None or estimate.high is None:
        return ""
    if estimate.low == estimate.high:
        return ""
    below = (estimate.value - estimate.low) / abs(estimate.value)
    above = (estimate.high - estimate.value) / abs(estimate.value)
    larger = max(below, above)
    if larger < 0.0005:
        return "±<0.1%"
    if narrow or abs(below - above) <= _SYMMETRIC * larger:
        return f"±{_percent(larger)}%"
    return f"−{_percent(below)} +{_percent(above)}%"


def bounds(estimate: Estimate | None, significant: int = 3) -> str:
    """The interval in the value's own unit: "1,190–1,280 tokens/s"; "" where there is none."""
    ends = bare_bounds(estimate, significant)
    if not ends or estimate is None or estimate.value is None:
        return ""
    _, name = scale(estimate.unit, estimate.value)
    return f"{ends}{'' if name in ('', '%') else ' '}{name}"


def bare_bounds(estimate: Estimate | None, significant: int = 3, divisor: float | None = None) -> str:
    """The interval without its unit, which is that of the value beside it: "1,190–1,280"; "" where there is none.

    `divisor`: of a column that has one unit for all.
    """
    if estimate is None or estimate.value is None or estimate.low is None or estimate.high is None:
        return ""
    divisor = scale(estimate.unit, estimate.value)[0] if divisor is None else divisor
    ends = [estimate.low / divisor, estimate.high / divisor]
    low, high = (digits(end, significant) for end in ends)
    decimals = [len(text.partition(".")[2]) for text in (low, high)]
    if decimals[0] != decimals[1] and "e" not in low + high and 0 < ends[1] < 10 * ends[0]:
        low, high = (f"{end:,.{max(decimals)}f}" for end in ends)  # 99.96 and 100.2: both to one digit, or neither
    return f"{low}–{high}"


def kind(estimate: Estimate) -> str:
    """The source of an interval: "run" (one run's own), "bracket" (one run's two looks), "range" (of two runs),
    "runs"; "" without one."""
    if estimate.low is None or estimate.high is None:
        return ""
    if estimate.runs == 1:
        return "run" if estimate.level is not None else "bracket"
    return "range" if estimate.level is None else "runs"


INTERVALS = {
    "run": "± of one run is the wider side of its own 95% interval, which says nothing of other runs.",
    "bracket": "± of one run's time to a target lies between two evaluations.",
    "range": "(±) is the range of two runs: no confidence is claimed.",
    "runs": "± is the 95% interval over runs.",
}


def absence(estimate: Estimate | None, *, counted: bool = True) -> str:
    """Why there is no value; `counted`: with how much was seen of what it takes."""
    if estimate is None:
        return "not computed for these runs"
    return clean(estimate.lacks if counted else estimate.reason)


def no_interval(estimate: Estimate, *, counted: bool = True) -> str:
    """Why a value has no interval: the reason where one was given, else how it was computed."""
    return clean((estimate.lacks if counted else estimate.no_interval) or estimate.method)


def method(estimate: Estimate) -> str:
    """How a value was computed, and why it has no interval where it has none."""
    return clean(f"{estimate.method}; no interval: {estimate.lacks}" if estimate.no_interval else estimate.method)


def under(estimate: Estimate | None) -> str:
    """The interval under a number in a table: "±3.1%", or in brackets where it is a range of two runs."""
    text = spread(estimate, narrow=True)
    return f"({text})" if text and estimate is not None and kind(estimate) == "range" else text


def legend(shown: Iterable[Estimate | None]) -> list[str]:
    """A sentence for each kind of interval that stands in a table."""
    kinds = {kind(present) for present in shown if present is not None and spread(present)}
    return [INTERVALS[present] for present in INTERVALS if present in kinds]


def level(estimate: Estimate) -> str:
    """The kind of interval: "95%" confidence, "range" where none is claimed, or "" without interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.level:.0%}" if estimate.level is not None else "range"


def factor(ratio: Estimate) -> str:
    """A ratio as "2.87×"."""
    return ABSENT if ratio.value is None else f"{_factor(ratio.value)}×"


def factor_bounds(ratio: Estimate) -> str:
    """A ratio's interval as "2.74–3.06×"; "" where there is none."""
    if ratio.low is None or ratio.high is None:
        return ""
    return f"{_factor(ratio.low)}–{_factor(ratio.high)}×"


def _factor(number: float) -> str:
    return f"{number:.2f}" if abs(number) < 9.995 else digits(number, 3)


def _percent(share: float) -> str:
    number = 100 * share
    if number < 0.05:
        return "0.0"
    return f"{number:.1f}" if number < 9.95 else f"{number:,.0f}"
