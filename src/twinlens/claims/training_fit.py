"""Claims on training that fits: weights, gradients and optimizer states against the memory of devices."""

from __future__ import annotations

import math
from collections.abc import Iterator

from twinlens.claims.answer import Answer, Case, Gap, beside, lacking, solved
from twinlens.claims.names import OPTIMIZERS
from twinlens.claims.said import Claim, Said
from twinlens.claims.subject import subject_of
from twinlens.claims.training import layouts_of, memory_case
from twinlens.claims.weights import implies_fit, room_of
from twinlens.record.finding import Finding


def training_fit(claim: Claim) -> Answer | Gap | None:
    """ "70B full fine-tuning fits on 4 H200": bytes per parameter of each usual layout; activations come on top."""
    is_training = "training" in claim.topics or claim.topics & {*OPTIMIZERS, "states", "gradients"}
    if not is_training or not ("fits" in claim.topics or implies_fit(claim)):
        return None
    if claim.name("format") == "qlora" or "lora" in claim.topics:
        return None
    if claim.all("time") or claim.all("rate") or claim.all("tokens"):
        return None
    subject, (room, where) = subject_of(claim), room_of(claim)
    if subject is None or room is None:
        return Gap("training-memory", lacking({"model": subject, "device": room}))
    cases = tuple(memory_case(subject.params, each, name) for name, each in layouts_of(claim))
    named = bool(claim.name("optimizer") or claim.all("bytes_per_param"))
    refuses = "not" in claim.topics
    said = Said("bytes", room, room, claim.text, off=0.0)
    return Answer(
        "no-room" if refuses else "memory", "bytes", said, cases, bound="at-most" if refuses else "at-least",
        assumed=(*where, *beside(subject.assumed)),
        missing=(*(() if named else ("optimizer",)), "activations", "runtime-memory"),
        solutions=tuple(_more(cases, room, claim.value("devices") or 1.0)),
    )  # fmt: skip


def _more(cases: tuple[Case, ...], room: float, devices: float) -> Iterator[Finding]:
    """How many such devices the usual reading takes, where there are too few."""
    usual = next((case for case in cases if case.assumed == "adamw-master"), cases[0])
    if usual.value > room:
        count = math.ceil(usual.value / (room / devices))
        yield solved("memory", "bytes", count * room / devices, {"devices": count, "layout": usual.assumed})
