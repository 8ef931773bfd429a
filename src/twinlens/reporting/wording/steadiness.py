"""Sentences on steadiness: the reasons of labels, of ratios by turns, and causes on the machine."""

from __future__ import annotations

from collections.abc import Callable

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers, percent
from twinlens.units import BYTES, digits, show


def could_hide(change: float | None) -> str:
    """Why something is provisional."""
    if change is None:
        return "nothing wrong was seen, but too little to show a change"
    hidden = "even a change of 100 %" if change >= 1 else f"a change of less than {digits(100 * change, 2)} %"
    return f"nothing wrong was seen, but {hidden} could hide; intervals include it"


def row_time(finding: Finding) -> str:
    return "latency per token" if "of" in finding.numbers else "row time"


def served(finding: Finding) -> str:
    """What a served run adds: requests per point, and failures before the window."""
    size, failed = finding.numbers.get("requests_per_point", 1), finding.numbers.get("failed_before", 0)
    point = f" (a point is {size} requests)" if size > 1 else ""
    return f"{point}; of the {number(finding, 'before')} requests before it {failed} failed" if failed else point


def drift(finding: Finding) -> str:
    change = finding.evidence.get("change")
    if change is None or change.value is None or change.low is None or change.high is None:
        return "follows a line rather than a level"
    word = "grows" if change.value > 0 else "falls"
    bounds = f"({100 * change.low:+.3g} to {100 * change.high:+.3g} %)"
    return f"{word} by {100 * abs(change.value):.3g} % {bounds} and has not levelled"


def ratio_change(finding: Finding) -> str:
    change = number(finding, "change")
    return f"{'grows' if change > 0 else 'falls'} by {percent(abs(change))}"


def suffers_unequally(finding: Finding) -> str:
    calm, of, change = numbers(finding, "calm", "of", "change")
    way = "above" if change > 0 else "below"
    return (
        f"one side suffers more from other programs: beside them the ratio is {percent(abs(change))} {way} that of the "
        f"{calm} calm rounds of {of}, too few to go by"
    )


_DOING: dict[str, tuple[str, Callable[[float], str]]] = {
    "other-programs": ("other programs used {} of the processors", percent),
    "steal": ("the hypervisor gave {} of the processors to others", percent),
    "quota": ("the container's processor quota held it back for {} of the time", percent),
    "clock": ("the processor ran at {}", lambda mhz: f"{mhz:.0f} MHz"),
    "gpu-clock": ("the accelerator ran at {}", lambda mhz: f"{mhz:.0f} MHz"),
    "throttling": ("the accelerator was throttled for {} of the time", percent),
    "temperature": ("the accelerator was at {}", lambda celsius: f"{celsius:.0f} °C"),
    "swapping": ("the machine swapped {} a sample", lambda size: show(size, BYTES, 2)),
    "page-faults": ("{} pages a sample had to come from storage", lambda faults: digits(faults, 2)),
    "storage": ("{} a sample were read from storage", lambda size: show(size, BYTES, 2)),
    "garbage-collection": ("garbage collection took {} of the time", percent),
    "compile": ("kernels were compiled for {} of the time", percent),
}
"""The effect of each source, and how its amount is written."""


def cause(finding: Finding) -> str:
    doing, amount = _DOING[finding.subject]
    slow = amount(number(finding, "slow"))
    if finding.numbers["how"] == "throughout":
        return f"A possible cause: {doing.format(slow)} throughout."
    calm, share = amount(number(finding, "calm")), number(finding, "share")
    return f"Cause: {doing.format(slow)} while rows were slow ({calm} otherwise); {percent(share)} of the lost time."
