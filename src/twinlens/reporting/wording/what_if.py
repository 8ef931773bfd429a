"""Sentences on what a change would give: another precision, more devices, another load, another executor."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.display import clean, join_names
from twinlens.reporting.wording.number import number, numbers, percent
from twinlens.units import BYTES, SECONDS, digits, show

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


def gains(finding: Finding) -> str:
    used, unit, optimise, headroom, device = numbers(
        finding, "utilisation", "unit", "optimise_at_most", "headroom_s", "device_at_most"
    )
    batch = finding.numbers.get("batch_at_most")
    larger = f", a larger batch at most ×{digits(batch, 2)} the throughput" if batch is not None else ""
    return (
        f"the {unit} uses {percent(used)} of its measured ceilings, so optimising gives at most ×{digits(optimise, 3)} "
        f"({show(headroom, SECONDS)} of each {unit}){larger}, and another device at most "
        f"×{digits(device, 3)}{_of_device(finding)}"
    )


def _of_device(finding: Finding) -> str:
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


def no_shorter(finding: Finding) -> str:
    return "" if finding.numbers.get("training") else " A replica shortens no request."


def in_short(finding: Finding) -> str:
    used, optimise, device, flips = numbers(finding, "utilisation", "optimise_at_most", "device_at_most", "flips_at")
    batch = finding.numbers.get("batch_at_most")
    larger = f", batching ×{digits(batch, 2)}" if batch is not None else ""
    by_batch = batch is not None and batch >= device
    ends = "" if by_batch else f"; flips at {percent(flips)}"
    return (
        f"{percent(used)} of ceilings used; at most ×{digits(optimise, 2)}{larger}, another device ×{digits(device, 2)}"
        f"{ends}"
    )


def served(finding: Finding) -> str:
    kept, needed, queue = (finding.numbers.get(name) for name in ("attainment", "needed", "queue"))
    slots = finding.numbers.get("slots")
    said = [f"{percent(kept)} keep the SLO ({percent(needed)} must)"] if kept is not None and needed else []
    said += [f"{percent(queue)} of a request's time is queue"] if queue is not None else []
    said += [f"{percent(slots)} of slots generate"] if slots is not None else []
    used = finding.numbers.get("decode_use")
    said += [f"a decode step reaches {percent(used)} of its ceiling"] if used is not None else []
    return ", ".join(said)


def quantise(finding: Finding) -> str:
    parts = [
        f"{_quantise_head(finding)} {_of_bytes(finding)}",
        _of_engine(finding),
        _until(finding),
        _measured(finding),
    ]
    return " ".join(part for part in parts if part)


def _quantise_head(finding: Finding) -> str:
    naive, own = numbers(finding, "naive", "from")
    gain = f"×{digits(number(finding, 'predicted'), 3)}{_span(finding)}"
    name = clean(finding.subject, 40)
    not_naive = f"the speed of {clean(own, 40)}, where its bits alone say ×{digits(naive, 2)}."
    if finding.code == "quantise-memory":
        return f"{name} saves memory and hardly time. By the roofline {gain} {not_naive}"
    unit = number(finding, "unit")
    likely = "shortens" if finding.code == "quantise-latency" else "may shorten"
    return f"{name} {likely} the {unit}. By the roofline {gain} {not_naive}"


def _of_bytes(finding: Finding) -> str:
    floor, whole, unit = numbers(finding, "floor_s", "seconds", "unit")
    rest = f"{percent(max(0.0, 1 - floor / whole))} of a {unit} is neither its arithmetic nor its bytes, and stays."
    if "bytes_ratio" not in finding.numbers:
        return rest
    ratio, saved = numbers(finding, "bytes_ratio", "saved_bytes")
    scales = f"With scales and head, its weights are ×{digits(ratio, 3)} smaller ({show(saved, BYTES)} less)."
    return f"{scales} {rest}"


def _of_engine(finding: Finding) -> str:
    fmt, same, support = numbers(finding, "computes_in", "same_compute", "support")
    if finding.numbers.get("training"):
        return f"The matrix engine has {fmt}." if support == "native" else ""
    if same:
        return f"It multiplies in {fmt} as before, so prefill gains nothing."
    return (
        f"It multiplies in {fmt}, which the matrix engine has." if support == "native" else f"It multiplies in {fmt}."
    )


def _until(finding: Finding) -> str:
    until, batch = finding.numbers.get("until_batch"), finding.numbers.get("batch")
    if until is None or batch is None:
        return ""
    if batch >= until:
        return f"At batch {batch} arithmetic binds decode already (from about {until:,.0f} on)."
    return f"From a batch of about {until:,.0f} on, arithmetic binds decode and narrower weights give it nothing."


def _measured(finding: Finding) -> str:
    ratio = finding.evidence.get("measured")
    if ratio is None:
        return "Not measured in this study."
    if ratio.value is None:
        return f"Measured: no ratio ({clean(ratio.lacks, 120)})."
    bounds = display.factor_bounds(ratio)
    count = f", n = {ratio.n}" if ratio.n else ""
    ranked = "" if finding.numbers.get("ranked") else "; not valid"
    passes = finding.numbers.get("passes")
    gate = "" if passes is None else "; quality pass" if passes else "; quality fail"
    outside = " The prediction lies outside it." if finding.numbers.get("is_outside") else ""
    return f"Measured: ×{digits(ratio.value, 3)} ({bounds or 'no interval'}{count}{ranked}{gate}).{outside}"


def quantise_short(finding: Finding) -> str:
    naive, predicted = numbers(finding, "naive", "predicted")
    name = clean(finding.subject, 40)
    kind = {"quantise-memory": "only memory, ", "quantise-unclear": "perhaps "}.get(finding.code, "")
    ratio = finding.evidence.get("measured")
    told = f", measured ×{digits(ratio.value, 3)}" if ratio is not None and ratio.value is not None else ""
    return f"{name} {kind}×{digits(predicted, 2)}{_span(finding)}{told} (bits ×{digits(naive, 2)})"


def _span(finding: Finding) -> str:
    low, high = numbers(finding, "at_least", "at_most")
    words = [digits(low, 3), digits(high, 3)]
    return "" if words[0] == words[1] else f" ({'–'.join(words)})"


def region_ends(finding: Finding) -> str:
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


_WORK = {"training": "training", "inference": "inference with"}


def work(finding: Finding) -> str:
    model, precision = numbers(finding, "model", "precision")
    work = _WORK.get(finding.subject, clean(finding.subject, 20))
    return f"{work} {clean(model, 40)} in {clean(precision, 40)}"


_NO_RESOURCE = {
    "indeterminate": "not known", "kernel-bound": "the rate of its kernels",
    "below-ceilings": "no ceiling, it is below both", "latency-bound": "fixed costs of a step",
}  # fmt: skip
"""Verdicts that name no resource, as what limits a run."""


def resource(finding: Finding) -> str:
    known = str(number(finding, "resource"))
    return _NO_RESOURCE.get(known) or clean(known.replace("-bound", ""), 40)


def lever(finding: Finding) -> str:
    return _LEVERS.get(finding.numbers.get("lever", ""), "the findings")


def flips_above(finding: Finding) -> str:
    return _flip(finding, "above")


def flips_below(finding: Finding) -> str:
    return _flip(finding, "below")


def flips_served(finding: Finding) -> str:
    if finding.numbers.get("slots") is not None:
        return "less than half of the slots generate"
    return "a decode step reaches less than half of its ceiling"


def missing(finding: Finding) -> str:
    return _MISSING[number(finding, "missing")]


def to_do(finding: Finding) -> str:
    return _TO_DO[number(finding, "missing")]


def why_undecided(finding: Finding) -> str:
    if number(finding, "missing") == "interval":
        low, high, flips = numbers(finding, "low", "high", "flips_at")
        return f"the utilisation of {percent(low)} to {percent(high)} contains {percent(flips)}, where it flips"
    reason = finding.numbers.get("reason")
    return f"{missing(finding)} ({clean(reason, 160)})" if reason else missing(finding)


def against(finding: Finding) -> str:
    return ", ".join(clean(each.code, 40).replace("-", " ") for each in finding.because)


# Of simulated runs: what their law leaves out, and parts beside a measured twin.

_MOST_LACKING = 4


def lacking(finding: Finding) -> str:
    """ "not modelled: the network, graphs and 2 more": the first few, and how many more there are."""
    return "not modelled: " + join_names([clean(each, 80) for each in finding.numbers["not_modelled"]], _MOST_LACKING)


def parts(finding: Finding) -> str:
    """ "prefill (0.92 ×), tail (1.31 ×)"."""
    pairs = zip(finding.numbers["parts"], finding.numbers["ratios"], strict=True)
    return join_names([f"{clean(part, 20)} ({ratio:.3g} ×)" for part, ratio in pairs])
