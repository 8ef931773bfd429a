"""Sentences on training in several processes: equal to one, what the exchange costs, what each rank holds."""

from __future__ import annotations

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import BYTES, SECONDS, show


def _equal(finding: Finding) -> str:
    steps, worst, tolerance = numbers(finding, "steps", "worst", "tolerance")
    return (
        f"Losses of the first {steps} steps are those of one process{_of_twin(finding)}: {worst:.1e} apart at most, "
        f"relatively; {tolerance:g} is allowed."
    )


def _of_twin(finding: Finding) -> str:
    few, many = finding.numbers.get("twin_layers"), finding.numbers.get("layers")
    return "" if few is None else f", on a twin of the model with {few} of its {many} layers"


def _differs(finding: Finding) -> str:
    steps, tolerance, allowed = numbers(finding, "steps", "tolerance", "gradient_tolerance")
    worst, norm, unknown = (finding.numbers.get(name) for name in ("worst", "gradient_norm_off", "unknown"))
    off = [] if worst is None else [f"losses are {worst:.1e} apart ({tolerance:g} is allowed)"]
    if unknown:
        off.append(f"in {unknown} of them a loss is absent or not finite")
    gradient = "is absent or not finite" if norm is None else f"{norm:.1e} ({allowed:g})"
    off.append(f"the first gradient's norm {gradient}")
    return f"The ranks do not train as one process does{_of_twin(finding)}: over {steps} steps {' and '.join(off)}."


def _hidden(finding: Finding) -> str:
    share, exposed_s, flight_s = numbers(finding, "share", "exposed_s", "flight_s")
    size, buckets, on_processor = numbers(finding, "bytes", "buckets", "on_processor")
    why = "; processor cores are shared with the exchange, so this says nothing of a GPU" if on_processor else ""
    cost = f"make it {show(exposed_s, SECONDS)} longer"
    if finding.numbers.get("by_kernels"):
        cost = f"for {show(exposed_s, SECONDS)} of it no kernel computes beside them"
    return (
        f"The backward pass hides {share:.0%} of the exchange of gradients: {show(size, BYTES)} in {buckets} buckets "
        f"are under way for {show(flight_s, SECONDS)}, and {cost}{why}."
    )


def _not_resolved(finding: Finding) -> str:
    longer_s, noise_s, flight_s = numbers(finding, "longer_s", "noise_s", "flight_s")
    return (
        f"How much of the exchange of gradients is hidden cannot be told: it makes the backward pass "
        f"{show(abs(longer_s), SECONDS)} {'longer' if longer_s >= 0 else 'shorter'} ± {show(noise_s, SECONDS)}, and "
        f"lasts {show(flight_s, SECONDS)} itself."
    )


def _exposed(finding: Finding) -> str:
    collectives, flight_s, exposed_s = numbers(finding, "collectives", "flight_s", "exposed_s")
    share, on_processor = numbers(finding, "share", "on_processor")
    many = " and ".join(f"{count} {name.replace('_', '-')}" for name, count in dict(collectives).items())
    why = "; processor cores are shared with the exchange, so this says nothing of a GPU" if on_processor else ""
    return (
        f"In one profiled step {many} are under way for {show(flight_s, SECONDS)}, and for {show(exposed_s, SECONDS)} "
        f"of it ({share:.0%}) no operator runs beside them: communication that is exposed{why}."
    )


def _exchanged(finding: Finding) -> str:
    size, gradients, many = numbers(finding, "bytes", "gradients_bytes", "microbatches")
    if finding.code == "gradients-exchanged-once":
        return (
            f"A step of {many} microbatches exchanges {show(size, BYTES)}, which is all gradients once: after the last "
            "microbatch alone."
        )
    return (
        f"A step of {many} microbatches exchanges {show(size, BYTES)}, and the gradients of this rank are "
        f"{show(gradients, BYTES)}."
    )


def _memory(finding: Finding) -> str:
    counted, predicted = numbers(finding, "counted_bytes", "predicted_bytes")
    off, limit = numbers(finding, "off", "limit")
    who = "Training" if finding.numbers.get("of_adapter") else "The fullest rank"
    head = f"{who} holds {show(counted, BYTES)} of {finding.subject}, {show(predicted, BYTES)} predicted"
    if finding.code == "memory-differs":
        return f"{head}: {off:.0%} apart, more than {limit:.0%}."
    others = [name for name in finding.numbers.get("categories", ()) if name != finding.subject]
    rest = f"; {' and '.join(others)} are nearer" if others else ""
    return f"{head}{rest} (within {limit:.0%})."


def _bubble(finding: Finding) -> str:
    stages, many, idle, predicted = numbers(finding, "stages", "microbatches", "idle", "predicted")
    between = _interval(finding.evidence.get("idle_share"))
    return (
        f"The {stages} ranks of the pipeline compute nothing for {idle:.0%}{between} of its schedule (derived from the "
        f"rows); the bubble of {many} microbatches is {predicted:.0%} by theory. Uneven stages, transfers and waiting "
        "for cores are in the first."
    )


def _interval(estimate: Estimate | None) -> str:
    """ " (70% to 80%)", or nothing."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f" ({estimate.low:.0%} to {estimate.high:.0%})"


def _scaling(finding: Finding) -> str:
    kind, fewer, more, on_processor = numbers(finding, "kind", "fewer", "more", "on_processor")
    efficiency = finding.evidence["efficiency"]
    whole = f"{efficiency.value or 0.0:.0%}{_interval(efficiency)}"
    if kind == "replicas":
        load = "at the same number of requests in flight"
        boards = finding.numbers.get("boards")
        shared = "; they share the cores of one processor" if on_processor else ""
        shared = f"; they share {boards} GPU{'s' * (boards > 1)}" if boards else shared
        return f"From {fewer} to {more} replicas the throughput scales with an efficiency of {whole}, {load}{shared}."
    same = "the global batch stays" if kind == "strong" else "the batch grows with the ranks"
    shared = "; the ranks share the cores of one processor" if on_processor else ""
    if "threads_of_fewer" in finding.numbers:
        before, after = numbers(finding, "threads_of_fewer", "threads_of_more")
        shared += f", with {before} threads each before and {after} after"
    return f"{kind.capitalize()} scaling from {fewer} to {more} ranks has an efficiency of {whole}: {same}{shared}."


SENTENCES = {
    "scaling-efficiency": _scaling,
    "one-process-equal": _equal,
    "one-process-differs": _differs,
    "one-process-not-compared": lambda finding: (
        "Nobody compared the ranks' losses with those of one process, so the run is not valid."
    ),
    "exchange-hidden": _hidden,
    "exchange-not-resolved": _not_resolved,
    "slow-rank": lambda finding: (
        f"Rank {finding.subject} is slow: its fastest exchange with any other takes {number(finding, 'times'):.1f} "
        "times as long as the fastest pair's."
    ),
    "exchange-on-processor": lambda finding: (
        f"The {number(finding, 'ranks')} ranks share this processor: these are rates of its memory and cores, not of a "
        "link."
    ),
    "slow-link": lambda finding: (
        f"The link of ranks {finding.subject} is slow: its fastest exchange takes {number(finding, 'times'):.1f} times "
        "as long as the fastest pair's."
    ),
    "pipeline-bubble": _bubble,
    "communication-exposed": _exposed,
    "gradients-exchanged-once": _exchanged,
    "gradients-exchanged-otherwise": _exchanged,
    "memory-differs": _memory,
    "memory-as-predicted": _memory,
}
