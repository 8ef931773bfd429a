"""Region of validity in words: a sentence for each change that ends what a run says."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import numbers
from twinlens.units import digits


def _region(finding: Finding) -> str:
    return _OF[finding.subject](finding)


def _batch(finding: Finding) -> str:
    at, now, side = numbers(finding, "at", "now", "side")
    if side == "compute":
        return f"Batch: from about {at:,.0f} on, arithmetic binds decode, not bytes; batch {now} was measured."
    return f"Batch: below about {at:,.0f}, bytes bind decode, not arithmetic; batch {now} was measured."


def _context(finding: Finding) -> str:
    at, now, beyond, most = numbers(finding, "at", "now", "beyond_model", "most")
    if beyond:
        return f"Context: none within this model ({most:,} tokens): the cache is as large as the weights at {at:,.0f}."
    where = (
        f"below {at:,.0f} tokens, decode reads less" if now >= at else f"from {at:,.0f} tokens on, decode reads more"
    )
    return f"Context: {where} cache than weights; {now:,} were measured."


def _prompt(finding: Finding) -> str:
    at, now = numbers(finding, "at", "now")
    where = f"below {at:,} tokens, bytes bind" if now >= at else f"from {at:,} tokens on, arithmetic binds"
    return f"Prompt: {where} prefill; {now:,} were measured."


def _samples(finding: Finding) -> str:
    at, now, side = numbers(finding, "at", "now", "side")
    by_bytes = side == "bandwidth"
    where = (
        f"below {digits(at, 2)} samples a step, bytes bind"
        if by_bytes
        else f"from {digits(at, 2)} on, arithmetic binds"
    )
    return f"Batch: {where}; {now} were measured."


def _clock(finding: Finding) -> str:
    times, phase = numbers(finding, "times", "phase")
    if times < 1:
        return f"Clock: at ×{digits(times, 2)} of this one or less, arithmetic binds {clean(phase, 20)}, not bytes."
    return f"Clock: above ×{digits(times, 2)} of this one, bytes bind {clean(phase, 20)}, not arithmetic."


def _load(finding: Finding) -> str:
    has_slo = finding.numbers.get("needed") is not None
    limit = "a search finds where the SLO ends" if has_slo else "no SLO says where it ends"
    return f"Load: another rate or concurrency has another queue; {limit}."


def _precision(finding: Finding) -> str:
    name = finding.numbers.get("name")
    known = f" {clean(name, 40)} was measured;" if name else ""
    return f"Precision:{known} in another one, bytes, kernels and ridge are others."


def _stack(finding: Finding) -> str:
    return "Driver, runtime and framework: another version of any ends it at once, and no theory says how far."


_OF = {
    "batch": _batch,
    "context": _context,
    "prompt": _prompt,
    "samples": _samples,
    "clock": _clock,
    "load": _load,
    "precision": _precision,
    "stack": _stack,
}
SENTENCES = {"region-ends": _region}
