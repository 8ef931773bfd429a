"""Sentences on training in several processes: equal to one, what the exchange costs, what each rank holds."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import BYTES, SECONDS, show


def _equal(finding: Finding) -> str:
    steps, worst, tolerance = numbers(finding, "steps", "worst", "tolerance")
    return (
        f"Losses of the first {steps} steps are those of one process: {worst:.1e} apart at most, relatively; "
        f"{tolerance:g} is allowed."
    )


def _differs(finding: Finding) -> str:
    steps, worst, tolerance = numbers(finding, "steps", "worst", "tolerance")
    norm, allowed = numbers(finding, "gradient_norm_off", "gradient_tolerance")
    return (
        f"The ranks do not train as one process does: over {steps} steps losses are {worst:.1e} apart ({tolerance:g} "
        f"is allowed) and the first gradient's norm {norm:.1e} ({allowed:g})."
    )


def _hidden(finding: Finding) -> str:
    share, exposed_s, flight_s = numbers(finding, "share", "exposed_s", "flight_s")
    size, buckets, on_processor = numbers(finding, "bytes", "buckets", "on_processor")
    why = "; processor cores are shared with the exchange, so this says nothing of a GPU" if on_processor else ""
    return (
        f"The backward pass hides {share:.0%} of the exchange of gradients: {show(size, BYTES)} in {buckets} buckets "
        f"are under way for {show(flight_s, SECONDS)}, and make it {show(exposed_s, SECONDS)} longer{why}."
    )


def _not_resolved(finding: Finding) -> str:
    longer_s, noise_s, flight_s = numbers(finding, "longer_s", "noise_s", "flight_s")
    return (
        f"How much of the exchange of gradients is hidden cannot be told: it makes the backward pass "
        f"{show(abs(longer_s), SECONDS)} {'longer' if longer_s >= 0 else 'shorter'} ± {show(noise_s, SECONDS)}, and "
        f"lasts {show(flight_s, SECONDS)} itself."
    )


def _memory(finding: Finding) -> str:
    counted, predicted = numbers(finding, "counted_bytes", "predicted_bytes")
    off, limit = numbers(finding, "off", "limit")
    head = f"The fullest rank holds {show(counted, BYTES)} of {finding.subject}, {show(predicted, BYTES)} predicted"
    if finding.code == "memory-differs":
        return f"{head}: {off:.0%} apart, more than {limit:.0%}."
    return f"{head}; weights, gradients and optimizer state are within {limit:.0%}."


def _scaling(finding: Finding) -> str:
    kind, fewer, more, on_processor = numbers(finding, "kind", "fewer", "more", "on_processor")
    efficiency = finding.evidence["efficiency"]
    whole = f"{efficiency.value or 0.0:.0%}"
    if efficiency.low is not None and efficiency.high is not None:
        whole += f" ({efficiency.low:.0%} to {efficiency.high:.0%})"
    same = "the global batch stays" if kind == "strong" else "the batch grows with the ranks"
    shared = "; the ranks share the cores of one processor" if on_processor else ""
    return f"{kind.capitalize()} scaling from {fewer} to {more} ranks has an efficiency of {whole}: {same}{shared}."


SENTENCES = {
    "scaling-efficiency": _scaling,
    "one-process-equal": _equal,
    "one-process-differs": _differs,
    "one-process-not-compared": lambda finding: (
        "Nobody compared the ranks' losses with those of one process, so the run is not ranked."
    ),
    "exchange-hidden": _hidden,
    "exchange-not-resolved": _not_resolved,
    "slow-rank": lambda finding: (
        f"Rank {finding.subject} is slow: its fastest exchange with any other takes {number(finding, 'times'):.1f} "
        "times as long as the fastest pair's."
    ),
    "slow-link": lambda finding: (
        f"The link of ranks {finding.subject} is slow: its fastest exchange takes {number(finding, 'times'):.1f} times "
        "as long as the fastest pair's."
    ),
    "memory-differs": _memory,
    "memory-as-predicted": _memory,
}
