"""Sentences on plans: figures with their arithmetic, what was taken for granted, and what would change the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinlens.reporting.display import clean
from twinlens.reporting.wording.amount import LACKS, WAYS, amount
from twinlens.reporting.wording.number import law_pages, number, numbers
from twinlens.reporting.wording.planned import capacity as plan_capacity
from twinlens.reporting.wording.planned.choose import CHOSEN
from twinlens.units import digits

if TYPE_CHECKING:  # sentences of findings are in every verb, planning is not
    from twinlens.planning.fit.answer import Fit, Placement
    from twinlens.planning.fit.serving import Serving
    from twinlens.planning.fit.training import Training
    from twinlens.record.finding import Finding
    from twinlens.theory.figure import Figure, Input

NAMES = {
    "weights": "weights", "kv": "KV cache", "activations": "activations", "runtime": "runtime", "needed": "needed",
    "usable": "usable", "most-users": "users", "most-context": "context", "gradients": "gradients",
    "master": "fp32 master", "optimizer": "optimizer", "gathered": "whole layers at work",
    "scores": "scores at the loss",
    "adapters": "adapters", "tower": "image tower", "unpacked": "unpacked weights", "state": "weights and states",
    "kv-of-one": "of one user", "wall": "power at the wall", "events": "errors", "link-needed": "link",
    "users-at": "speed", "device-hours": "device-hours",
    "sampling": "scores sampled from", "prefill-pass": "one pass of prefill", **plan_capacity.NAMES, **CHOSEN,
}  # fmt: skip
"""Figures, as tables call them."""


def figure_words(figure: Figure) -> str:
    """The arithmetic of one figure: "171.8 GB = 16 users × 10.74 GB"."""
    if figure.value is None:
        return "not known"
    known = float(figure.value)
    value = counted(known, figure.unit) if figure.unit in COUNTED else amount(known, figure.unit)
    if not figure.formula or not figure.inputs:
        return value
    return f"{value} = {figure.formula.format(*map(input_words, figure.inputs))}"


def lawful_words(figures: Sequence[tuple[str, Figure]]) -> tuple[tuple[str, ...], str]:
    """The arithmetic of each figure by its name, with its law in brackets, and where to read laws; "" without any."""
    lines = tuple(f"{name}: {figure_words(each)}{_law(each)}" for name, each in figures)
    return lines, law_pages(dict.fromkeys(each.law for _, each in figures if each.law and each.value is not None))


def _law(figure: Figure) -> str:
    return f" [{figure.law}]" if figure.law and figure.value is not None else ""


def input_words(each: Input | Figure) -> str:
    """One number of an arithmetic."""
    if each.value is None:
        return "?"
    if isinstance(each.value, str):
        return clean(each.value, 40)
    value = float(each.value)
    if each.unit == "bits":
        return f"{value:.5g} bits"
    if each.unit in COUNTED:
        return counted(value, each.unit)
    if each.unit == "bytes" and value < 1000:
        return f"{value:.4g} B"
    return amount(value, each.unit, plain=True) if each.unit != "1" else f"{value:.4g}"


COUNTED = {"users", "tokens", "layers", "KV heads", "wide", "devices", "entries", "sequences", "copies"}
"""Units of whole things."""


def counted(value: float, unit: str) -> str:
    """ "16 users"; a mean of counts with three digits."""
    return f"{value:,.0f} {unit}" if value == int(value) else f"{digits(value)} {unit}"


def subject_words(plan: Serving | Training) -> str:
    """What is to be placed: "llama-3.1-70b in bf16 for 16 users of 32,768 tokens"."""
    from twinlens.planning.fit.training import Training

    if isinstance(plan, Training):
        return _training_words(plan)
    users = "1 user" if plan.users == 1 else f"{plan.users:,} users"
    name = clean(plan.subject.name, 60)
    others = f", beside {', '.join(clean(each.subject.name, 60) for each in plan.beside)}" if plan.beside else ""
    each = f"{users} of {plan.context:,} tokens (KV cache in {plan.kv_format})"
    return f"{name} in {plan.weight_format} for {each}{others}"


def like_words(plan: Serving | Training) -> list[str]:
    """What a run measured over the arithmetic: "RUN measured weights × 1.00, activations × 0.81"."""
    if not plan.like:
        return []
    parts = ", ".join(f"{NAMES.get(each.part, each.part)} × {each.times:.2f}" for each in plan.like)
    return [f"measured over computed, by {clean(plan.like[0].run, 60)}: {parts}"]


FITS = {True: "Yes, it fits", False: "No, it does not fit", None: "It cannot be said"}


def fit_words(answer: Fit) -> str:
    """The answer for the device that was asked for, in one sentence."""
    asked = answer.asked
    if asked is None:
        return ""
    close = f", but close ({plan_capacity.short_words(asked.short)})" if asked.is_close and asked.fits else ""
    return f"{FITS[asked.fits]}{close}: {subject_words(answer.plan)}, on {placed_words(asked)}."


def _training_words(plan: Training) -> str:
    name, layout = clean(plan.subject.name, 60), plan.bytes_per_parameter
    how = f"full fine-tuning at {layout.total:.4g} bytes a parameter ({plan.optimizer})"
    if plan.method != "full":
        how = f"{ {'lora': 'LoRA', 'qlora': 'QLoRA'}[plan.method] } of rank {plan.rank} ({plan.optimizer})"
    recompute = {"none": "no recompute", "selective": "selective recompute", "full": "full recompute"}[plan.recompute]
    batch = "1 sequence" if plan.batch == 1 else f"{plan.batch:,} sequences"
    return f"{name}, {how}, {batch} of {plan.context:,} tokens on each device, {recompute}"


def placed_words(placed: Placement) -> str:
    """ "2 × b200-sxm-180gb (tensor 2)"."""
    ways = ", ".join(_way(name, degree) for name, degree in placed.split.items() if _is_told(name, degree, placed))
    return f"{placed.devices} × {placed.device}{f' ({ways})' if ways else ''}"


def _way(name: str, degree: int) -> str:
    return f"ZeRO {degree}" if name == "zero" else f"{name} {degree}"


def _is_told(name: str, degree: int, placed: Placement) -> bool:
    return placed.devices > 1 and degree > (0 if name == "zero" else 1)


def unknown(finding: Finding) -> str:
    if number(finding, "needs") in LACKS:
        return LACKS[number(finding, "needs")]
    model, needs = numbers(finding, "model", "needs")
    lacks = {
        "layers": "its layers are not known: name a model, or give its config.json",
        "rate": "no rate is known of it" if finding.subject != "events" else "no count is published: --table FILE",
        "hours": "how long it runs is not known: --hours",
        "watts": "its power is not known",
        "link": "no link is known: say --link",
        "device-rate": "no rate of the device is known in 16 bits or fp32",
        "accelerator": "public measurements calibrate accelerators, not processors: plan capacity --like RUN of one",
        "time": "public measurements calibrate accelerators, not processors: say --mfu",
        "room": "there is no room for one",
        "prediction": "its format or device is not predicted",
        "price": "no price is known: say --price",
        "rent": "no rent is quoted",
        "buy": "no purchase price is quoted",
        "speed": "not even one user gets that",
    }[needs]
    return f"{NAMES.get(finding.subject, finding.subject)} of {clean(model, 60)}: {lacks}"


def never(finding: Finding) -> str:
    numbers_of = finding.numbers
    if "months" in numbers_of:
        return f"never within {numbers_of['months']} months against {WAYS[finding.subject]}"
    return f"never over {numbers_of['share_months']} months against {WAYS[finding.subject]}"


def placed_cells(each: Placement) -> tuple[str, ...]:
    """Device, count, GB needed and usable each, and the free share of one placement, of screen and page alike.

    "!" after the free share: close enough for the error of such sums to turn the answer.
    """
    room = float(each.usable.value or 1)
    free = f"{digits(100 * (each.left_bytes or 0) / room, 2)} %{'!' if each.is_close else ' '}"
    needed = digits(float(each.needed.value or 0) / 1e9, 4)
    return each.device, f"{each.devices:,}", needed, digits(room / 1e9, 4), free


def from_daly(finding: Finding) -> str:
    off = number(finding, "off")
    return f"{abs(off):.1%} {'above' if off > 0 else 'below'}"


_AXES = {"commitment_months": "months of commitment", "slo": "SLO", "counts": "tokens that the throughput counts"}


def quotes_differ(finding: Finding) -> str:
    numbers, axis = finding.numbers, finding.subject
    if axis == "work":
        shown = [
            " in, ".join("?" if each is None else f"{each:,}" for each in numbers[of]) for of in ("quoted", "asked")
        ]
        return f"work: {clean(str(numbers['name']), 40)} was quoted at {shown[0]} out, and this is {shown[1]} out"
    if axis == "kind":
        return "kind: one sells hours, and the other sells tokens"
    if numbers["one"] is None and numbers["other"] is None:
        return f"{_AXES.get(axis, axis)}: neither says it"
    said = ["not said" if numbers[of] is None else clean(str(numbers[of]), 60) for of in ("one", "other")]
    return f"{_AXES.get(axis, axis)}: {said[0]} against {said[1]}"
