"""The verb that says what to run a model on: from words to what is wanted, and to two rankings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinlens.api.plan.amount import seconds_of, tokens_of, trained_tokens_of, watts_of
from twinlens.api.plan.as_json import as_json
from twinlens.api.plan.asked import beside_of, context_of, subject_of, unverified
from twinlens.api.plan.choose_asked import (
    TRAINED_IN,
    among,
    duty_of,
    most_of,
    needs_of,
    precisions_of,
    served_in,
    shares_of,
    speed_of,
)
from twinlens.api.plan.number import UNREADABLE, count_of, one_of
from twinlens.api.plan.own import owns_of
from twinlens.api.plan.probed import THIS, this_device
from twinlens.errors import BadInput
from twinlens.planning.choose.answer import Choice, choice
from twinlens.planning.choose.nearest import nearest
from twinlens.planning.choose.own import Own
from twinlens.planning.choose.wanted import DAY_H, ServingWanted, Site, TrainingWanted, Wanted
from twinlens.planning.figure import assumed
from twinlens.planning.sold import RACK
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.spec.model.shape import DecoderShape
from twinlens.system.catalogue_folder import catalogue_folder

_SLOW = 0.1
"""Seconds between two tokens of somebody who reads along: 10 tokens/s."""


@dataclass(frozen=True, slots=True)
class ChooseResult:
    """Two rankings and what follows. `notes`: what was taken for granted."""

    answer: Choice
    notes: tuple[Finding, ...] = ()

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), self.notes)


def choose(
    model: str,
    *,
    training_model: str | None = None,
    training: object = None,
    inference: object = None,
    users: object = None,
    context: object = None,
    answer: object = None,
    speed: object = None,
    ttft: object = None,
    precision: str | None = None,
    train: str = "full",
    training_precision: str = "bf16",
    sequences: object = None,
    length: object = None,
    tokens: object = None,
    within: object = None,
    duty: object = None,
    ecc: bool = False,
    datacentre: bool = False,
    on_premise: bool = False,
    compliance: str | None = None,
    power: object = None,
    most_devices: object = None,
    among_devices: str | None = None,
    probe: str | Path | None = None,
    like: str | Path | None = None,
    beside: str | None = None,
    known: str | Path | None = None,
    catalogue: str | Path | None = None,
) -> ChooseResult:
    """What to run a model on: `choose("70B", training=30, users=16, context="8K", speed=20)`.

    `beside`: other models to serve, "qwen3-8b,8B:32:4K", each on devices of its own and to the same targets. `probe`
    adds this machine ("this"). `like`: served runs, `known`: a file of `plan calibrate`; their constants go before the
    public ones on the devices that they ran on.

    Raises BadInput for unknown names (TL201, TL203, TL204), for values that cannot be or contradict each other, and
    where no device does what was asked, with the nearest that one does (TL231).
    """
    whole = _with_this(catalogue_of(catalogue_folder(catalogue)), among_devices, probe)
    own = owns_of(known, like, whole)
    share = shares_of(training, inference)
    served = subject_of(model, whole)
    trained = subject_of(training_model, whole) if training_model else served
    _no_work("inference", share < 1, {"users": users, "speed": speed, "ttft": ttft, "beside": beside})
    _no_work("training", share > 0, {"sequences": sequences, "within": within, "tokens": tokens,
                                     "training-model": training_model})  # fmt: skip
    needs, notes = needs_of(ecc, datacentre, on_premise, compliance)
    notes = (*served.assumed, *notes)
    if training is None and inference is None:
        notes += (assumed("split", "half of the hours"),)
    serving = None
    if share < 1:
        mine = own.get("serving")
        serving, more = _serving(served, users, context, answer, speed, ttft, precision, mine)
        others = [(_serving(*each, answer, speed, ttft, precision, mine)[0])
                  for each in beside_of(beside, users, context, whole)]  # fmt: skip
        serving = replace(serving, beside=tuple(others))
        notes += (*more, *(note for each in others for note in each.subject.assumed))
    taught = None
    if share > 0:
        taught, more = _training(
            trained, train, training_precision, sequences, length, tokens, within, own.get("training")
        )
        notes += more
    watts = None if power is None else watts_of("power", power)
    site = Site(needs, watts, most_of(RACK if most_devices is None else most_devices))
    wanted = Wanted(serving, taught, share, site, DAY_H if duty is None else duty_of(duty))
    found = choice(wanted, among(among_devices, whole, needs), whole, own)
    if found.impossible is not None:
        raise BadInput(clause_of(nearest(found, among(among_devices, whole, needs), whole)), code=UNREADABLE)
    best = {each.candidates[0].device for each in found.rankings}
    notes += tuple(note for device in whole.devices if device.name in best for note in unverified(device))
    return ChooseResult(found, notes)


def _with_this(whole: Catalogue, among_devices: str | None, probe: str | Path | None) -> Catalogue:
    """The catalogue, and this machine in it where it was probed or named."""
    if probe is None and THIS not in [each.strip() for each in (among_devices or "").split(",")]:
        return whole
    return replace(whole, devices=(*whole.devices, this_device(probe)))


def _serving(
    subject: Subject,
    users: object,
    context: object,
    answer: object,
    speed: object,
    ttft: object,
    precision: str | None,
    own: Own | None,
) -> tuple[ServingWanted, tuple[Finding, ...]]:
    whole, shape = context_of(context, subject), _shape(subject)
    if whole > shape.max_context:
        raise BadInput(
            f"--context {whole:,} is more than the {shape.max_context:,} positions of {subject.name}", code=UNREADABLE
        )
    out = tokens_of("answer", min(512, max(1, whole // 4)) if answer is None else answer)
    if out >= whole:
        raise BadInput(
            f"--answer {out:,} leaves no prompt in --context {whole:,}; write at most --answer {whole - 1:,}"
            if whole > 1 else "--context is a prompt and an answer, 2 tokens at least", code=UNREADABLE,
        )  # fmt: skip
    late = None if ttft is None else seconds_of("ttft", ttft)
    every = _SLOW if speed is None else speed_of(speed)
    notes: tuple[Finding, ...] = () if speed is not None else (assumed("speed", round(1 / _SLOW)),)
    notes += () if users is not None else (assumed("users", 1),)
    notes += () if answer is not None else (assumed("answer", out),)
    many = count_of("users", 1 if users is None else users)
    found = ServingWanted(subject, shape, many, whole - out, out, served_in(precision, subject), every, late)
    if own is not None:  # the engine of the runs
        return replace(found, engine=own.engine), notes
    return found, (*notes, assumed("engine", found.engine, lens="inference"))


def _training(
    subject: Subject,
    train: str,
    precision: str,
    sequences: object,
    length: object,
    tokens: object,
    within: object,
    own: Own | None,
) -> tuple[TrainingWanted, tuple[Finding, ...]]:
    long = tokens_of("length", "4K" if length is None else length)
    shape = _shape(subject)
    if (tokens is None) != (within is None):
        raise BadInput("a deadline is --tokens and --within together: --tokens 100M --within 12h", code=UNREADABLE)
    rate = many = None
    if tokens is not None:
        many = trained_tokens_of("tokens", tokens)
        rate = many / seconds_of("within", within)
    found = TrainingWanted(
        subject,
        shape,
        one_of("train", train, ("full", "lora", "qlora")),  # type: ignore[arg-type]
        count_of("sequences", 128 if sequences is None else sequences),
        long,
        precisions_of("training-precision", precision, TRAINED_IN),
        rate,
        tokens=many,
    )
    notes: tuple[Finding, ...] = (
        () if sequences is not None and length is not None else (assumed("batch", found.sequences, length=long),)
    )
    if own is not None:
        return replace(found, engine=own.engine), notes
    return found, (*notes, assumed("engine", found.engine, lens="training"))


def _shape(subject: Subject) -> DecoderShape:
    if subject.shape is None:
        raise BadInput(
            f"the layers of {subject.name} are not known, and speed follows from them; name a model or its config.json",
            code=UNREADABLE,
        )
    return subject.shape


def _no_work(lens: str, has_work: bool, options: dict[str, object]) -> None:
    """Raises BadInput (TL231) for options of a lens that has no share of the work."""
    for name, value in options.items():
        if value is not None and not has_work:
            raise BadInput(f"--{name} is of {lens}, which has 0 % of the work; give it a share: --{lens} 50",
                           code=UNREADABLE)  # fmt: skip
