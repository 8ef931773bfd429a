"""Scale out or optimise, in words: a clause for the first screen, and a sentence with every number that decided."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import number, numbers, percent
from twinlens.units import SECONDS, digits, show

_LEVERS = {
    "batch": "a larger batch",
    "kernels": "better use of its ceilings",
    "host": "less time outside the server's queue and model",
    "service": "a shorter prefill or decode",
    "slots": "fuller batches",
}
_MISSING = {
    "utilisation": "how much of the device is used is not known",
    "interval": "the interval of the utilisation contains the point where it flips",
    "slo": "no SLO was given, so nothing says what is enough",
    "valid": "the run is invalid, so neither its latency nor its queue counts",
    "attainment": "too few requests to say whether the SLO is kept",
    "queue": "the server's time in queue was not read",
    "slots": "neither the server's slots nor its ceilings are known",
}
_TO_DO = {
    "utilisation": "measure with protocol.ceilings = true",
    "interval": "measure longer, on a quiet machine",
    "slo": "measure with workload.slo",
    "valid": "measure again, with what its findings say",
    "attainment": "measure longer",
    "queue": "measure with the server's metrics page",
    "slots": "measure with the server's metrics page, or give its ceilings: diagnose --ceilings",
}


def _scale_out(finding: Finding) -> str:
    if finding.numbers.get("served"):
        by_slots = finding.numbers.get("slots") is not None
        ends = (
            "less than half of the slots generate"
            if by_slots
            else "a decode step reaches less than half of its ceiling"
        )
        return f"Scale out: {_served(finding)}. It flips where {ends}."
    return f"Scale out for more throughput: {_gains(finding)}. {_flip(finding, 'below')}{_no_shorter(finding)}"


def _scale_out_short(finding: Finding) -> str:
    if finding.numbers.get("served"):
        return f"scale out: {_served(finding)}"
    return f"scale out for throughput: {_short(finding)}"


def _optimise(finding: Finding) -> str:
    lever = _LEVERS.get(finding.numbers.get("lever", ""), "the findings")
    if finding.numbers.get("served"):
        return f"Optimise first ({lever}): {_served(finding)}."
    return f"Optimise first ({lever}): {_gains(finding)}. {_flip(finding, 'above')}{_no_shorter(finding)}"


def _optimise_short(finding: Finding) -> str:
    lever = _LEVERS.get(finding.numbers.get("lever", ""), "the findings")
    told = _served(finding) if finding.numbers.get("served") else _short(finding)
    return f"optimise first ({lever}): {told}"


def _both(finding: Finding) -> str:
    return f"Optimise and scale out: {_served(finding)}, and the time between tokens misses the SLO too."


def _both_short(finding: Finding) -> str:
    return f"optimise and scale out: {_served(finding)}; TPOT misses the SLO too"


def _neither(finding: Finding) -> str:
    kept, needed = numbers(finding, "attainment", "needed")
    return f"Neither is needed at this load: {percent(kept)} of requests keep the SLO, and {percent(needed)} must."


def _neither_short(finding: Finding) -> str:
    kept, needed = numbers(finding, "attainment", "needed")
    return f"neither is needed: {percent(kept)} of requests keep the SLO, {percent(needed)} must"


def _undecided(finding: Finding) -> str:
    missing = number(finding, "missing")
    reason = finding.numbers.get("reason")
    why = f"{_MISSING[missing]} ({clean(reason, 160)})" if reason else _MISSING[missing]
    if missing == "interval":
        low, high, flips = numbers(finding, "low", "high", "flips_at")
        why = f"the utilisation of {percent(low)} to {percent(high)} contains {percent(flips)}, where it flips"
    return f"Scale out or optimise cannot be decided: {why}; {_TO_DO[missing]}."


def _undecided_short(finding: Finding) -> str:
    missing = number(finding, "missing")
    return f"cannot be decided: {_MISSING[missing]}; {_TO_DO[missing]}"


def _gains(finding: Finding) -> str:
    used, unit, optimise, headroom, device = numbers(
        finding, "utilisation", "unit", "optimise_at_most", "headroom_s", "device_at_most"
    )
    batch = finding.numbers.get("batch_at_most")
    larger = f", a larger batch at most ×{digits(batch, 2)} the throughput" if batch is not None else ""
    return (
        f"the {unit} uses {percent(used)} of its measured ceilings, so optimising gives at most ×{digits(optimise, 3)} "
        f"({show(headroom, SECONDS)} of each {unit}){larger}, and another device at most "
        f"×{digits(device, 3)}{_device(finding)}"
    )


def _device(finding: Finding) -> str:
    if not finding.numbers.get("training"):
        return ""
    saves, communication = numbers(finding, "device_saves_s", "communication")
    share = f"communication takes {percent(communication)}" if finding.numbers.get("link_known") else "no link measured"
    return f" ({show(saves, SECONDS)} of each step; {share})"


def _flip(finding: Finding, side: str) -> str:
    flips, at_s, unit = numbers(finding, "flips_at", "flips_at_s", "unit")
    batch, device = finding.numbers.get("batch_at_most"), number(finding, "device_at_most")
    if side == "above" and batch is not None and batch >= device:
        return f"It flips once a larger batch gives less than ×{digits(device, 3)}."
    return f"It flips {side} {percent(flips)}, a {unit} of {show(at_s, SECONDS)}."


def _no_shorter(finding: Finding) -> str:
    return "" if finding.numbers.get("training") else " A replica shortens no request."


def _short(finding: Finding) -> str:
    used, optimise, device, flips = numbers(finding, "utilisation", "optimise_at_most", "device_at_most", "flips_at")
    batch = finding.numbers.get("batch_at_most")
    larger = f", batching ×{digits(batch, 2)}" if batch is not None else ""
    by_batch = batch is not None and batch >= device
    ends = "" if by_batch else f"; flips at {percent(flips)}"
    return (
        f"{percent(used)} of ceilings used; at most ×{digits(optimise, 2)}{larger}, another device ×{digits(device, 2)}"
        f"{ends}"
    )


def _served(finding: Finding) -> str:
    kept, needed, queue = (finding.numbers.get(name) for name in ("attainment", "needed", "queue"))
    slots = finding.numbers.get("slots")
    said = [f"{percent(kept)} keep the SLO ({percent(needed)} must)"] if kept is not None and needed else []
    said += [f"{percent(queue)} of a request's time is queue"] if queue is not None else []
    said += [f"{percent(slots)} of slots generate"] if slots is not None else []
    used = finding.numbers.get("decode_use")
    said += [f"a decode step reaches {percent(used)} of its ceiling"] if used is not None else []
    return ", ".join(said)


SENTENCES = {
    "scale-out": _scale_out,
    "optimise-first": _optimise,
    "optimise-and-scale-out": _both,
    "neither-needed": _neither,
    "scaling-undecided": _undecided,
}
CLAUSES = {
    "scale-out": _scale_out_short,
    "optimise-first": _optimise_short,
    "optimise-and-scale-out": _both_short,
    "neither-needed": _neither_short,
    "scaling-undecided": _undecided_short,
}
