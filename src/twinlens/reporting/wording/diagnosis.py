"""Sentences on what binds a run, with the numbers that decided and the change that would prove them wrong."""

from __future__ import annotations

from twinlens.diagnosis.counter import Counter
from twinlens.diagnosis.diagnosis import Diagnosis
from twinlens.diagnosis.instrument import SOURCES
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import number, numbers, percent
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import SECONDS, digits, show

PARTS = {
    "data": "waiting for data",
    "forward": "forward",
    "backward": "backward",
    "communicate": "communication",
    "optimize": "optimizer",
    "between-steps": "between steps",
    "held": "held by the admission policy",
    "before-sending": "before sending",
    "queue": "queue of the server",
    "prefill": "prefill",
    "transport": "transport and tokenising",
    "decode": "decode",
    "after-last-token": "after the last token",
    "unattributed": "unattributed",
}
"""Parts of time, as they are called."""


_CEILINGS = {
    "matrix_flop_per_s_at": "the matrix rate at its own shapes",
    "matrix_flop_per_s": "the matrix rate",
    "copy_bytes_per_s": "the copy bandwidth",
    "read_bytes_per_s": "the read bandwidth",
    "matvec_bytes_per_s": "the rate at which its mat-vec kernels read",
    "dram_active": "DRAM busy",
    "tensor_active": "tensor pipes busy",
}


_HOST = {
    "waited_cpu": "on average {0} threads waited for a processor",
    "steal_cpu": "a hypervisor gave {1} of the processors to others",
    "quota_cpu": "a quota held it back {1} of the time",
    "gc_share": "Python collected garbage {1} of the time",
    "foreign_cpu": "other programs used {1} of the processors",
}
"""Pressure on the host, in words."""


_WHY = {
    "no-partition": "the time cannot be split into parts",
    "no-ceiling": "the run measured no ceilings",
    "no-work": "its FLOP and bytes are not known",
    "near-ridge": "its FLOP per byte lie too near the ridge, or its bytes are not known well enough",
    "processor-shared": "other programs had the processor for so much of the time that they alone may explain it",
    "above-ceiling": "it is above a measured ceiling, so the ceiling or the work is another",
    "work-bounded": "its FLOP are known only as an upper bound",
    "ceilings-moved": "the ceilings from before and after the run lead to different verdicts",
}


def agreement_words(found: Diagnosis) -> str:
    """ "3 repeats together; 2 of them alone have this verdict"; "" of one run."""
    repeats, agree = (found.verdict.numbers.get(name) for name in ("repeats", "agree"))
    if repeats is None or agree is None:
        return ""
    alone = "each of them alone has" if agree == repeats else f"{agree} of them alone {'has' if agree == 1 else 'have'}"
    return f"{repeats} repeats together; {alone} this verdict"


def part_words(part: str) -> str:
    """A part of time in words; of another version, as it stands."""
    return PARTS.get(part, clean(part, 40))


def evidence_words(name: str) -> str:
    """A ceiling or a metric in words, for the evidence of a finding."""
    return _CEILINGS.get(name) or (METRICS[name].label if name in METRICS else clean(name, 40))


def bandwidth_bound(finding: Finding) -> str:
    share, stream, ridge = numbers(finding, "bandwidth_share", "stream_share", "ridge")
    also = f" ({percent(stream)} of a plain read)" if abs(stream - share) > 0.005 else ""
    return (
        f"{what(finding)} is bandwidth-bound: {percent(share)} of {_ceiling(finding, 'bandwidth')}{also}, at "
        f"{intensity(finding)} FLOP/byte (ridge {digits(ridge)}). {test(finding)}"
    )


def shares(finding: Finding) -> str:
    """ "at most 37 % of the matrix rate and 13 % of the copy bandwidth"."""
    compute, bandwidth = numbers(finding, "compute_share", "bandwidth_share")
    bounded = "at most " if finding.numbers.get("at_most_because") else ""
    return f"{bounded}{percent(compute)} of {_ceiling(finding, 'compute')} and {percent(bandwidth)} of " + _ceiling(
        finding, "bandwidth"
    )


def classes(finding: Finding) -> str:
    """ " Time by class of kernel: matrix products 59 %, attention 11 %."; "" where no profile was kept."""
    classes = finding.numbers.get("classes") or {}
    longest = sorted(classes.items(), key=lambda each: -each[1])[:3]
    said = ", ".join(f"{clean(name, 30)} {percent(share)}" for name, share in longest)
    return f" Time by class of kernel: {said}." if said else ""


def waits(finding: Finding) -> str:
    share, seconds, parts = numbers(finding, "share", "seconds", "parts")
    named = " and ".join(map(part_words, parts))
    return (
        f"The {finding.subject} is {finding.code}: {percent(share)} of its time ({show(seconds, SECONDS)}) is {named}. "
        f"{_meanwhile(finding)}{test(finding)}"
    )


def _meanwhile(finding: Finding) -> str:
    """What pressed on the host, of what is more than a hundredth; "" where nothing did."""
    values = {name: each.value or 0.0 for name, each in finding.evidence.items() if name in _HOST}
    said = [_HOST[name].format(digits(value, 2), percent(value)) for name, value in values.items() if value > 0.01]
    return f"Meanwhile {' and '.join(said[:2])}. " if said else ""


def capacity_bound(finding: Finding) -> str:
    preempted, use = finding.numbers.get("preemptions"), finding.numbers.get("kv_use")
    full = f"the KV cache reached {percent(use)}" if use is not None else "the KV cache was full"
    again = f", and {preempted:,.0f} requests were preempted" if preempted else ""
    share = number(finding, "share")
    return f"The request is capacity-bound: {percent(share)} of its time is waiting, and {full}{again}. {test(finding)}"


def why_indeterminate(finding: Finding) -> str:
    why = number(finding, "why")
    if why == "unattributed":
        return f"{percent(number(finding, 'share'))} of the time is in no part"
    if why == "refuted":
        return f"{clean(number(finding, 'withdrawn'), 40)} was refuted by its own test, and is withdrawn"
    if reason := finding.numbers.get("at_most_because"):
        share = percent(number(finding, "compute_share"))
        return f"{clean(reason, 200)}, so its FLOP are at most {share} of {_ceiling(finding, 'compute')}"
    return clean(finding.numbers.get("reason") or _WHY[why], 200)


def test(finding: Finding) -> str:
    """The falsifier, as a sentence."""
    change, most, least = (finding.numbers.get(name) for name in ("change", "at_most", "at_least"))
    if finding.code == "below-ceilings":
        more = f"×{digits(least or 1.0, 2)} the throughput or more if fixed costs bind, less if the kernels are slow"
        return f"Test: double the batch; {more}."
    bound = (
        f"at most ×{digits(most or 1.0, 2)}" if least is None else f"×{digits(least, 2)} to ×{digits(most or 1.0, 2)}"
    )
    said = {
        "double-batch": f"Test: double the batch; expect {bound} the throughput",
        "halve-weights": f"Test: halve the bits of the weights; expect {bound} the speed",
        "other-kernels": f"Test: another runtime or other kernels; expect {bound} the speed",
        "remove-wait": f"Test: take that wait away; expect {bound} the speed",
    }
    return f"{said[change]}." if change in said else ""


def what(finding: Finding) -> str:
    return f"{clean(finding.subject, 40)}".capitalize() if finding.subject != "step" else "The training step"


def _ceiling(finding: Finding, which: str) -> str:
    earlier = " of an earlier probe" if finding.numbers.get("probed") else ""
    return _CEILINGS[number(finding, f"{which}_ceiling")] + earlier


def intensity(finding: Finding) -> str:
    high, low = number(finding, "intensity_high"), finding.numbers.get("intensity_low")
    return f"{digits(low)} to {digits(high)}" if low is not None else f"at most {digits(high)}"


def ceiling_not_measured(finding: Finding) -> str:
    lacking, place = number(finding, "lacking"), finding.numbers.get("place")
    why = "the server is on another machine" if place == "elsewhere" else "the run measured none"
    return f"No ceiling of {' and '.join(lacking)} is known ({why}), so no roofline can be held against the time."


_OUTSIDE = {
    "data": " It is between optimizer and forward pass: waiting for batches, or Python of the loop. Take batches "
    "through run.data(loader), and the wait is a part of its own.",
    "loop": " It is Python of the loop, outside forward, backward, optimizer and the wait for batches.",
}
"""Time of a watched loop that is in no part."""


def time_unattributed(finding: Finding) -> str:
    reason, share = finding.numbers.get("reason"), number(finding, "share")
    if reason:
        return f"The time of a {finding.subject} has no parts: {clean(reason, 200)}."
    unsaid = [f"its {part} time" for part in finding.numbers.get("unsaid", ())]
    how = "says neither" if len(unsaid) > 1 else "does not say"
    why = f": the server {how} {' nor '.join(unsaid)}" if unsaid else ""
    where = _OUTSIDE.get(str(finding.numbers.get("unmarked", "")), "")
    return f"{percent(share)} of the time of a {finding.subject} belongs to no part{why}.{where}"


def time_waiting(finding: Finding) -> str:
    share, seconds, of = numbers(finding, "share", "headroom_s", "of")
    most = finding.numbers.get("at_most")
    gain = f"; without it at most ×{digits(most, 3)}" if most is not None else ""
    return (
        f"{part_words(finding.subject).capitalize()}: {show(seconds, SECONDS)} of each {of} ({percent(share)}){gain}."
    )


def instrument_contradicts(finding: Finding) -> str:
    source, counted, bound, which = numbers(finding, "source", "counted", "bound", "which")
    busy = {"dram": "DRAM", "tensor pipes": "tensor pipes"}.get(finding.subject, clean(finding.subject, 40))
    least = f"{clean(source, 20)} saw {busy} {percent(counted)} busy, and the work by theory needs {percent(bound)}"
    if which == "more":
        return f"{least}: most of what the board did there is work that theory leaves out."
    return f"{least}: the work, or the board, is another than theory takes it to be."


COUNTERS = {
    "matrix-engines": "matrix engines",
    "bandwidth": "memory bandwidth",
    "batching": "batching efficiency",
    "transfer": "host–device, boundary",
    "kernels": "kernels, profiled",
}


_BESIDE = {
    "by_theory": "{} by theory",
    "share": "{} of ceiling",
    "share_at_most": "at most {} of ceiling",
    "ridge": "ridge {}",
    "share_of_kernel": "{} of its kernels' rate",
    "hmma_active": "{} HMMA",
    "sm_occupancy": "{} of warps",
    "pcie_tx_bytes_per_s": "{} from it",
    "nvlink_rx_bytes_per_s": "{} over NVLink",
}


_COUNTED_BY = {
    "matrix-engines": "tensor pipes busy {}",
    "bandwidth": "DRAM busy {}",
    "transfer": "{} to the board",
}
"""What an instrument counted, in words."""


def counter_name(counter: Counter) -> str:
    """What a counter is called; one of another version by its id."""
    return COUNTERS.get(counter.id, display.clean(counter.id, 40))


def counter_words(counter: Counter) -> str:
    """ "23.5 FLOP/byte (12% of ceiling, ridge 4.9), step"; or why it is not known."""
    if counter.value.value is None:
        return f"not known: {display.clean(counter.value.reason or '', 200)}"
    if counter.id == "kernels":
        classes = [f"{display.clean(name, 30)} {display.value(each)}" for name, each in counter.beside.items()]
        return f"{', '.join(classes)}, {counter.about}"
    told = [_BESIDE[key].format(display.value(each)) for key, each in counter.beside.items() if key in _BESIDE]
    value = display.value(counter.value)
    if "share_at_most" in counter.beside:
        value = f"at most {value}"
    if counter.source not in SOURCES:
        more = f" ({', '.join(told)})" if told else ""
        return f"{value}{more}, {counter.about}"
    phase = f"{counter.about}: " if "by_theory" in counter.beside else ""
    more = f" ({phase}{', '.join(told)})" if told else ""
    return f"{_COUNTED_BY[counter.id].format(value)} by {counter.source} over the window{more}"


def compute_ceiling(finding: Finding) -> str:
    return _ceiling(finding, "compute")


def bandwidth_ceiling(finding: Finding) -> str:
    return _ceiling(finding, "bandwidth")


def compiled(finding: Finding) -> str:
    return " It was compiled already." if "compiled" in finding.numbers.get("tried", ()) else ""
