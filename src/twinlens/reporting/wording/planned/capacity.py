"""Sentences on capacity: the answer, its band, what stands beside it, and what was taken for granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.reporting.display import clean
from twinlens.reporting.wording.amount import amount
from twinlens.reporting.wording.number import numbers
from twinlens.units import SECONDS, digits, show

if TYPE_CHECKING:
    from twinlens.planning.capacity.serving import ServingCapacity, ServingPlan
    from twinlens.planning.capacity.training import TrainingCapacity, TrainingPlan
    from twinlens.record.finding import Finding
    from twinlens.theory.figure import Figure

NAMES = {
    "ttft": "TTFT", "tpot": "TPOT", "ttft-p99": "p99 TTFT", "tpot-p99": "p99 TPOT",
    "prefill": "prefill", "wait": "wait before it", "requests": "requests",
    "tokens": "tokens", "at-target": "at the target", "at-target-each": "of one copy at the target",
    "devices": "devices needed", "training-step": "step", "time-to-train": "time to train",
    "step-weights": "reading weights",
    "step-experts": "experts", "step-attention": "attention and cache", "step-collectives": "collectives",
    "step-overhead": "overhead", "step-prefills": "prefills of others", "part-computing": "computing",
    "part-recompute": "recompute", "part-communication": "communication", "part-bubble": "pipeline bubble",
    "part-optimizer": "optimizer", "part-overhead": "overhead", "ttft-limit": "limit of TTFT",
    "tpot-limit": "limit of TPOT", "devices-each": "devices of a copy", "all-tokens": "tokens of the whole",
    "effective": "share of time not lost", "peak": "peak over mean", "spare": "spare copies",
}  # fmt: skip
_STOPS = {"ttft": "TTFT", "tpot": "TPOT", "room": "the room for caches", "queue": "a queue without end"}
_METRICS = {"tpot": "TPOT", "ttft": "TTFT", "step": "step time"}


def serving_words(plan: ServingPlan) -> str:
    """What is served, on what, under which load."""
    asked = plan.question
    load = f"{plan.load:,.4g} {'user' if plan.load == 1 and plan.unit == 'users' else plan.unit}"
    copies = "" if plan.copies == 1 else f", {plan.copies:,} copies"
    lengths = f"prompts of {asked.prompt:,.0f} and answers of {asked.answer:,.0f} tokens"
    on = f"{plan.copies * asked.devices:,} × {clean(asked.device.name, 40)}"
    ways = "".join(f", {name} {degree}" for name, degree in (("tensor", asked.tensor), ("groups", asked.data))
                   if degree > 1)  # fmt: skip
    return f"{clean(asked.model, 60)} in {asked.precision}, {load}, {lengths}, on {on} ({asked.engine}{ways}{copies})"


def training_words(plan: TrainingPlan) -> str:
    """What is trained, on what, with which batch."""
    asked = plan.question
    ways = {"tensor": asked.tensor, "pipeline": asked.pipeline, "expert": asked.expert}
    layout = "".join(f", {name} {degree}" for name, degree in ways.items() if degree > 1)
    how = f"{'LoRA' if asked.adapters else 'full'}{', full recompute' if asked.recompute else ''}"
    step = f"{asked.sequences:,.0f} sequences of {asked.length:,.0f} tokens a step"
    on = f"{asked.devices:,} × {clean(asked.device.name, 40)} ({asked.engine}{layout})"
    return f"Training {clean(asked.model, 60)} in {asked.precision} ({how}), {step}, on {on}"


def answer_words(found: ServingCapacity | TrainingCapacity) -> str:
    """The answer in one sentence."""
    from twinlens.planning.capacity.training import TrainingCapacity

    if isinstance(found, TrainingCapacity):
        return _training(found)
    words = serving_words(found.plan)
    if found.missed == "queue":
        return f"No, the queue has no end: {words}."
    if found.missed == "room":
        return f"No, some wait for a place in the cache: {words}."
    if found.missed:
        return f"No, {found.plan.target.of} {_STOPS[found.missed]} misses its target: {words}."
    sure = float(found.most.low or 0) >= found.plan.load
    return f"Yes{'' if sure else ', but not surely (the band crosses the target)'}: {words}."


def target_words(found: ServingCapacity) -> str:
    """How much there could be at the target, and what stops more."""
    target, most = found.plan.target, found.most
    both = (("TTFT", target.ttft_s), ("TPOT", target.tpot_s))
    limits = [f"{target.of} {name} ≤ {show(value, SECONDS)}" for name, value in both if value is not None]
    of = f"{target.of} " if found.stops in ("ttft", "tpot") else ""
    stops = f"; {of}{_STOPS[found.stops]} stops more" if found.stops else ""
    return f"{count_words(most)} at {' and '.join(limits) or 'no target'}{stops}"


def devices_words(found: ServingCapacity) -> str:
    """How many devices the load takes, with head-room."""
    if found.devices.value is None:
        return "not known: even the lightest load misses the target"
    room = found.plan.headroom
    copies = "copy" if room.spare == 1 else "copies"
    why = f"peak × {room.peak:g} and {room.spare} spare {copies}" if (room.peak, room.spare) != (1, 0) else (
        "no head-room: --peak, --spare"
    )  # fmt: skip
    return f"{count_words(found.devices)} for this load ({why})"


def count_words(figure: Figure) -> str:
    """ "31 users (12 to 54)"; an end that is not known is said to be."""
    if figure.value is None:
        return "not known"
    shown = [_count(end) for end in (figure.value, figure.low, figure.high)]
    ends = f"{shown[1]} to {shown[2]}" if figure.high is not None else f"{shown[1]} or more, without a bound"
    unit = figure.unit.removesuffix("s") if figure.value == 1 and figure.unit in ("users", "devices") else figure.unit
    return f"{shown[0]} {unit} ({ends})"


def _count(value: object) -> str:
    number = float(value or 0)  # type: ignore[arg-type]
    return f"{number:,.0f}" if number == int(number) else digits(number)


def _training(found: TrainingCapacity) -> str:
    words, whole = training_words(found.plan), found.whole
    if found.fits is False:
        return f"No, it does not fit in memory: {words}."
    if whole is None:
        return f"{words}: {amount(float(found.step.value or 0), 's')} a step."
    tokens = f"{digits(float(found.plan.tokens or 0) / 1e9)} B tokens in {amount(float(whole.value or 0), 's')}"
    if found.is_met is None:
        return f"{words}: {tokens}."
    sure = float(whole.high or 0) <= float(found.plan.within_s or 0)
    yes = f"Yes{'' if sure else ', but not surely (the band crosses the deadline)'}" if found.is_met else "No, too late"
    return f"{yes}. {words}: {tokens}."


HARDLY = "the first token of groups that share experts is hardly known"


def band(finding: Finding) -> str:
    low, high, level, rows, floor = numbers(finding, "low", "high", "level", "rows", "floor")
    identical = "" if finding.subject == "ttft" else f" (identical systems differ by {100 * floor:.0f} %)"
    if finding.subject == "ttft" and str(finding.numbers["kind"]).endswith(": groups"):
        identical = f": {HARDLY}"
    return (
        f"{_METRICS[finding.subject]} × {low:.2f} to × {high:.2f} holds {100 * level:.0f} % of {rows:,} held-out "
        f"measurements{identical}"
    )


def unseen(finding: Finding) -> str:
    named = [f"{kind} {clean(str(name), 40)}" for kind, name in finding.numbers.items() if name is not None]
    return f"calibration has seen no measurement of {', '.join(named) or 'this'}"


def memory(finding: Finding) -> str:
    if finding.subject == "unknown":
        expert, devices = numbers(finding, "expert", "devices")
        return (
            f"whether it fits in memory is not known: plan fit cannot divide {devices:,} devices with --expert {expert}"
        )
    needed, room, zero = numbers(finding, "needed_bytes", "usable_bytes", "zero")
    if finding.subject == "close":
        (short,) = numbers(finding, "short")
        return (
            f"close: each device needs {amount(float(needed), 'bytes')} of {amount(float(room), 'bytes')} "
            f"(ZeRO {zero}), and {short_words(float(short))}"
        )
    return (
        f"each device needs {amount(float(needed), 'bytes')} and can use {amount(float(room), 'bytes')} "
        f"(ZeRO {zero}); the times are those of devices with enough: see plan fit"
    )


def short_words(short: float) -> str:
    """By how much a sum of parts may be too small: measured in serving, caution in training."""
    from twinlens.planning.fit.answer import MEMORY_ERROR

    share = f"{100 * short:.0f} %"
    if short > MEMORY_ERROR:
        return f"within {share}, which is caution: no public run shows what does not fit"
    return f"such sums are up to {share} short"


def too_late(finding: Finding) -> str:
    within, sequences = numbers(finding, "within_s", "sequences")
    return f"no number of devices up to one for each of {sequences:,.0f} sequences does it in {amount(within, 's')}"
