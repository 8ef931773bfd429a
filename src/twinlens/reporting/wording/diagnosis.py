"""Sentences on what binds a run, with the numbers that decided and the change that would prove them wrong."""

from __future__ import annotations

from twinlens.diagnosis.diagnosis import Diagnosis
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import number, numbers, percent
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import BYTES, SECONDS, digits, show

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
    """ "3 repeats together; 2 of them alone have this verdict."; "" of one run."""
    repeats, agree = (found.verdict.numbers.get(name) for name in ("repeats", "agree"))
    if repeats is None or agree is None:
        return ""
    alone = "each of them alone has" if agree == repeats else f"{agree} of them alone {'has' if agree == 1 else 'have'}"
    return f"{repeats} repeats together; {alone} this verdict."


def part_words(part: str) -> str:
    """A part of time in words; of another version, as it stands."""
    return PARTS.get(part, clean(part, 40))


def evidence_words(name: str) -> str:
    """A ceiling or a metric in words, for the evidence of a finding."""
    return _CEILINGS.get(name) or (METRICS[name].label if name in METRICS else clean(name, 40))


def _compute(finding: Finding) -> str:
    share, ridge = numbers(finding, "compute_share", "ridge")
    return (
        f"{_subject(finding)} is compute-bound: {percent(share)} of {_ceiling(finding, 'compute')}, at "
        f"{_intensity(finding)} FLOP/byte (ridge {digits(ridge)}). {_test(finding)}"
    )


def _bandwidth(finding: Finding) -> str:
    share, stream, ridge = numbers(finding, "bandwidth_share", "stream_share", "ridge")
    also = f" ({percent(stream)} of a plain read)" if abs(stream - share) > 0.005 else ""
    return (
        f"{_subject(finding)} is bandwidth-bound: {percent(share)} of {_ceiling(finding, 'bandwidth')}{also}, at "
        f"{_intensity(finding)} FLOP/byte (ridge {digits(ridge)}). {_test(finding)}"
    )


def _shares(finding: Finding) -> str:
    """ "at most 37 % of the matrix rate and 13 % of the copy bandwidth"."""
    compute, bandwidth = numbers(finding, "compute_share", "bandwidth_share")
    bounded = "at most " if finding.numbers.get("at_most_because") else ""
    return f"{bounded}{percent(compute)} of {_ceiling(finding, 'compute')} and {percent(bandwidth)} of " + _ceiling(
        finding, "bandwidth"
    )


def _below(finding: Finding) -> str:
    tried = " It was compiled already." if "compiled" in finding.numbers.get("tried", ()) else ""
    return f"{_subject(finding)} is below both ceilings: {_shares(finding)}.{tried}{_classes(finding)} {_test(finding)}"


def _latency(finding: Finding) -> str:
    return (
        f"{_subject(finding)} is latency-bound: {_shares(finding)}, and twice the batch shares its fixed costs, as was "
        "measured."
    )


def _kernels(finding: Finding) -> str:
    if finding.numbers.get("by_trial"):
        return (
            f"{_subject(finding)} is kernel-bound: {_shares(finding)}, and its time grows with the batch, as was "
            "measured: its kernels are below their ceilings, and fixed costs are not what binds."
            f"{_classes(finding)}"
        )
    share, stream = numbers(finding, "bandwidth_share", "stream_share")
    return (
        f"{_subject(finding)} is kernel-bound: {percent(share)} of {_ceiling(finding, 'bandwidth')} alone, which is "
        f"{percent(stream)} of a plain read: its kernels are the limit, and memory is not.{_classes(finding)} "
        f"{_test(finding)}"
    )


def _classes(finding: Finding) -> str:
    """ " Time by class of kernel: matrix products 59 %, attention 11 %."; "" where no profile was kept."""
    classes = finding.numbers.get("classes") or {}
    longest = sorted(classes.items(), key=lambda each: -each[1])[:3]
    said = ", ".join(f"{clean(name, 30)} {percent(share)}" for name, share in longest)
    return f" Time by class of kernel: {said}." if said else ""


def _wait(finding: Finding) -> str:
    share, seconds, parts = numbers(finding, "share", "seconds", "parts")
    named = " and ".join(map(part_words, parts))
    return (
        f"The {finding.subject} is {finding.code}: {percent(share)} of its time ({show(seconds, SECONDS)}) is {named}. "
        f"{_meanwhile(finding)}{_test(finding)}"
    )


def _meanwhile(finding: Finding) -> str:
    """What pressed on the host, of what is more than a hundredth; "" where nothing did."""
    values = {name: each.value or 0.0 for name, each in finding.evidence.items() if name in _HOST}
    said = [_HOST[name].format(digits(value, 2), percent(value)) for name, value in values.items() if value > 0.01]
    return f"Meanwhile {' and '.join(said[:2])}. " if said else ""


def _capacity(finding: Finding) -> str:
    preempted, use = finding.numbers.get("preemptions"), finding.numbers.get("kv_use")
    full = f"the KV cache reached {percent(use)}" if use is not None else "the KV cache was full"
    again = f", and {preempted:,.0f} requests were preempted" if preempted else ""
    share = number(finding, "share")
    return (
        f"The request is capacity-bound: {percent(share)} of its time is waiting, and {full}{again}. {_test(finding)}"
    )


def _indeterminate(finding: Finding) -> str:
    why = number(finding, "why")
    if why == "unattributed":
        said = f"{percent(number(finding, 'share'))} of the time is in no part"
    elif why == "refuted":
        said = f"{clean(number(finding, 'withdrawn'), 40)} was refuted by its own test, and is withdrawn"
    elif reason := finding.numbers.get("at_most_because"):
        share = percent(number(finding, "compute_share"))
        said = f"{clean(reason, 200)}, so its FLOP are at most {share} of {_ceiling(finding, 'compute')}"
    else:
        said = clean(finding.numbers.get("reason") or _WHY[why], 200)
    return f"{_subject(finding)} is indeterminate: {said}."


def _test(finding: Finding) -> str:
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


def _subject(finding: Finding) -> str:
    return f"{clean(finding.subject, 40)}".capitalize() if finding.subject != "step" else "The training step"


def _ceiling(finding: Finding, which: str) -> str:
    earlier = " of an earlier probe" if finding.numbers.get("probed") else ""
    return _CEILINGS[number(finding, f"{which}_ceiling")] + earlier


def _intensity(finding: Finding) -> str:
    high, low = number(finding, "intensity_high"), finding.numbers.get("intensity_low")
    return f"{digits(low)} to {digits(high)}" if low is not None else f"at most {digits(high)}"


def _unranked(finding: Finding) -> str:
    label = clean(number(finding, "label"), 40)
    state = "provisional" if label == "unproven" else f"not valid ({label})"
    return f"The run is {state}: read the diagnosis with care."


def _no_ceiling(finding: Finding) -> str:
    lacking, place = number(finding, "lacking"), finding.numbers.get("place")
    why = "the server is on another machine" if place == "elsewhere" else "the run measured none"
    return f"No ceiling of {' and '.join(lacking)} is known ({why}), so no roofline can be held against the time."


_OUTSIDE = {
    "data": " It is between optimizer and forward pass: waiting for batches, or Python of the loop. Take batches "
    "through run.data(loader), and the wait is a part of its own.",
    "loop": " It is Python of the loop, outside forward, backward, optimizer and the wait for batches.",
}
"""Time of a watched loop that is in no part."""


def _no_part(finding: Finding) -> str:
    reason, share = finding.numbers.get("reason"), number(finding, "share")
    if reason:
        return f"The time of a {finding.subject} has no parts: {clean(reason, 200)}."
    unsaid = [f"its {part} time" for part in finding.numbers.get("unsaid", ())]
    how = "says neither" if len(unsaid) > 1 else "does not say"
    why = f": the server {how} {' nor '.join(unsaid)}" if unsaid else ""
    where = _OUTSIDE.get(str(finding.numbers.get("unmarked", "")), "")
    return f"{percent(share)} of the time of a {finding.subject} belongs to no part{why}.{where}"


def _waiting(finding: Finding) -> str:
    share, seconds, of = numbers(finding, "share", "headroom_s", "of")
    most = finding.numbers.get("at_most")
    gain = f"; without it at most ×{digits(most, 3)}" if most is not None else ""
    return (
        f"{part_words(finding.subject).capitalize()}: {show(seconds, SECONDS)} of each {of} ({percent(share)}){gain}."
    )


def _others(finding: Finding) -> str:
    least, share, here, there, load = numbers(finding, "at_least_s", "share", "here_s", "there_s", "load")
    return (
        f"At least {show(least, SECONDS)} of the wait for the first token ({percent(share)} of the time of a request) "
        f"is due to other requests: it is {show(here, SECONDS)} here and {show(there, SECONDS)} at {clean(load, 20)}."
    )


def _cache_full(finding: Finding) -> str:
    use, preempted = finding.numbers.get("kv_use"), finding.numbers.get("preemptions")
    again = "" if preempted is None else f", and {preempted:,.0f} requests were preempted"
    full = f"was {percent(use)} full" if use is not None else "was full"
    return f"The server's KV cache {full}{again}."


def _optimizer(finding: Finding) -> str:
    share, spent, least, moved, most = numbers(finding, "share", "seconds", "least_s", "bytes", "at_most")
    return (
        f"The optimizer takes {show(spent, SECONDS)} of each step ({percent(share)}); its {show(moved, BYTES)} take "
        f"{show(least, SECONDS)} at the copy bandwidth. Twice the samples a step give at most ×{digits(most, 3)}."
    )


def _above_link(finding: Finding) -> str:
    spent, least, moved, ranks, times = numbers(finding, "seconds", "least_s", "bytes", "ranks", "times")
    return (
        f"Gradients are under way for {show(spent, SECONDS)}, {digits(times, 2)} times as long as {show(moved, BYTES)} "
        f"take between {ranks} ranks at the probed bandwidth ({show(least, SECONDS)}): the link is not what binds them."
    )


def _kernel(finding: Finding) -> str:
    ratio, most = numbers(finding, "ratio", "at_most")
    return (
        f"The mat-vec kernels read weights at {percent(ratio)} of a plain read, measured alone: better ones give "
        f"decode at most ×{digits(most, 2)}."
    )


def _below_ridge(finding: Finding) -> str:
    batch, intensity, ridge, most = numbers(finding, "batch", "intensity", "ridge", "at_most")
    return (
        f"Decode does {digits(intensity, 2)} FLOP/byte at batch {batch}, and the ridge is at {digits(ridge, 2)}: each "
        f"weight is read for few sequences. Twice the batch gives at most ×{digits(most, 2)} the tokens."
    )


def _contradicts(finding: Finding) -> str:
    source, counted, bound, which = numbers(finding, "source", "counted", "bound", "which")
    busy = {"dram": "DRAM", "tensor pipes": "tensor pipes"}.get(finding.subject, clean(finding.subject, 40))
    least = f"{clean(source, 20)} saw {busy} {percent(counted)} busy, and the work by theory needs {percent(bound)}"
    if which == "more":
        return f"{least}: most of what the board did there is work that theory leaves out."
    return f"{least}: the work, or the board, is another than theory takes it to be."


SENTENCES = {
    "compute-bound": _compute,
    "bandwidth-bound": _bandwidth,
    "below-ceilings": _below,
    "kernel-bound": _kernels,
    "latency-bound": _latency,
    "interconnect-bound": _wait,
    "input-bound": _wait,
    "host-bound": _wait,
    "queue-bound": _wait,
    "capacity-bound": _capacity,
    "indeterminate": _indeterminate,
    "diagnosis-of-unranked": _unranked,
    "ceiling-not-measured": _no_ceiling,
    "instrument-contradicts": _contradicts,
    "time-unattributed": _no_part,
    "time-waiting": _waiting,
    "wait-for-others": _others,
    "cache-full": _cache_full,
    "optimizer-time": _optimizer,
    "exchange-above-link": _above_link,
    "kernel-below-stream": _kernel,
    "batch-below-ridge": _below_ridge,
}
