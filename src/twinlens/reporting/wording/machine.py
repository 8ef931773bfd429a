"""Sentences on the machine during a run: causes, neighbours, clocks and heat."""

from __future__ import annotations

from collections.abc import Callable

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers, percent
from twinlens.units import BYTES, digits, show

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


def _cause(finding: Finding) -> str:
    doing, amount = _DOING[finding.subject]
    slow = amount(number(finding, "slow"))
    if finding.numbers["how"] == "throughout":
        return f"A possible cause: {doing.format(slow)} throughout."
    calm, share = amount(number(finding, "calm")), number(finding, "share")
    return f"Cause: {doing.format(slow)} while rows were slow ({calm} otherwise); {percent(share)} of the lost time."


def _no_cause_found(finding: Finding) -> str:
    samples = number(finding, "samples")
    if not samples:
        return "No cause found: the machine was not sampled during the run."
    return f"No cause found: nothing in {samples} samples of the machine coincided with the slow moments."


def _shared_machine(finding: Finding) -> str:
    share = percent(number(finding, "share"))
    return f"Other programs used {share} of the processors throughout: the figures are those of a shared machine."


def _throttled(finding: Finding) -> str:
    share = percent(number(finding, "share"))
    if finding.severity == "notes":
        return f"The accelerator stood at its power limit in {share} of the steady window ({finding.subject})."
    return f"The accelerator was throttled ({finding.subject}) in {share} of the steady window."


def _clock_moves(finding: Finding) -> str:
    cv, mean = numbers(finding, "cv", "mean_mhz")
    return f"The clock of {finding.subject} moved by {percent(cv)} around {digits(mean)} MHz inside the steady window."


def _still_warming(finding: Finding) -> str:
    rate, reached = numbers(finding, "c_per_min", "reached_c")
    return (
        f"{finding.subject} still grew warmer by {digits(rate, 2)} °C a minute inside the steady window, up to "
        f"{digits(reached)} °C: heat may not have settled."
    )


SENTENCES = {
    "cause": _cause,
    "no-cause-found": _no_cause_found,
    "shared-machine": _shared_machine,
    "throttled": _throttled,
    "clock-moves": _clock_moves,
    "still-warming": _still_warming,
}
