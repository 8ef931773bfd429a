"""The verb that says what to run a model on: from words to what is wanted, and to two rankings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack, cast

from twinlens.api.documented import Answered
from twinlens.api.plan.reading.amount import UNREADABLE
from twinlens.api.plan.reading.choice import (
    TRAINED_IN,
    among,
    duty_of,
    most_of,
    needs_of,
    percent_of,
    precisions_of,
    served_in,
    shares_of,
    speed_of,
)
from twinlens.api.plan.reading.options import (
    COUNT,
    FLAG,
    FORMAT,
    NAME,
    NAMES,
    RUN,
    TIME,
    TOKENS,
    TRAINED,
    WATTS,
    Context,
    Known,
    Model,
    Precision,
    Probe,
    Users,
    one,
)
from twinlens.api.plan.reading.options import (
    Catalogue as Folder,
)
from twinlens.api.plan.reading.subject import THIS, beside_of, context_of, subject_of, this_device, unverified
from twinlens.api.question import Kind, Question, Verb, asks, option
from twinlens.errors import BadInput
from twinlens.planning.choose.answer import Choice, choice, nearest
from twinlens.planning.choose.wanted import DAY_H, Own, Owns, ServingWanted, Site, TrainingWanted, Wanted
from twinlens.planning.fit.training import Method
from twinlens.planning.sold import RACK
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.spec.model.shape import DecoderShape
from twinlens.system.home_folder import catalogue_folder
from twinlens.theory.figure import assumed

if TYPE_CHECKING:
    from twinlens.api.words import PlanChooseWords
    from twinlens.reporting.document.block import Document

_SLOW = 0.1
"""Seconds between two tokens of somebody who reads along: 10 tokens/s."""


@dataclass(frozen=True, slots=True, repr=False)
class ChooseResult(Answered):
    """Two rankings and what follows. `notes`: what was taken for granted."""

    answer: Choice
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.choose import choose_document

        return choose_document(self.answer, self.notes)


class ChooseAsked(Question):
    """What to run a model on, and how much of its hours trains."""

    model: Model
    training: Annotated[float, option("Share of the hours that is training.", Kind("PERCENT", percent_of))] | None = (
        None
    )
    inference: Annotated[float, option("Share of the hours that is inference.", Kind("PERCENT", percent_of))] | None = (
        None
    )
    users: Users | None = None
    context: Context | None = None
    answer: Annotated[int, option("Of the context, what is answered.", TOKENS)] | None = None
    speed: Annotated[float, option("Tokens/s that each user gets at least.", Kind("RATE", speed_of))] | None = None
    ttft: Annotated[float, option("Mean time to the first token at most: 2s.", TIME)] | None = None
    precision: Precision | None = None
    train: Annotated[str, option("full, lora or qlora.", one("METHOD", ("full", "lora", "qlora")))] = "full"
    training_model: Annotated[str, option("What is trained, if another.", NAME)] | None = None
    training_precision: Annotated[str, option("bf16, fp8 …", FORMAT)] = "bf16"
    sequences: Annotated[int, option("Of a step, over all devices.", COUNT)] | None = None
    length: Annotated[int, option("Of a training sequence.", TOKENS)] | None = None
    tokens: Annotated[float, option("To train on, with --within.", TRAINED)] | None = None
    within: Annotated[float, option("Deadline of training: 12h.", TIME)] | None = None
    duty: Annotated[float, option("A day in which users are served.", Kind("HOURS", duty_of))] | None = None
    ecc: Annotated[bool, option("Only devices with ECC.", FLAG)] = False
    datacentre: Annotated[bool, option("Only data-centre devices.", FLAG)] = False
    on_premise: Annotated[bool, option("Only devices that are sold.", FLAG)] = False
    compliance: Annotated[str, option("hipaa, itar or fedramp.", NAME)] | None = None
    power: Annotated[float, option("Of all devices at most: 20kW.", WATTS)] | None = None
    most_devices: Annotated[int, option("Of one system.", Kind("COUNT", most_of))] | None = None
    among_devices: Annotated[str, option("Choose from these: H100,H200.", NAMES, "--among")] | None = None
    probe: Probe | None = None
    like: Annotated[Path, option("Served runs of yours go first.", RUN)] | None = None
    beside: Annotated[str, option("Other models, on devices of their own: 8B,qwen3-8b:32:4K.", NAMES)] | None = None
    known: Known | None = None
    catalogue: Folder | None = None


VERB = Verb("plan choose", (ChooseAsked,), "--model 70B --users 16 --context 8K",
            "Every candidate and why others are not one.", ("--all",))  # fmt: skip


@asks(VERB)
def choose(model: str | None = None, **words: Unpack[PlanChooseWords]) -> ChooseResult:
    """What would serve it and what would train it, ranked apart; one shared system or two.

    `choose("70B", training=30, users=16, context="8K", speed=20)`. `beside`: other models to serve, each on devices of
    its own and to the same targets. `probe` adds this machine ("this"). `like`: served runs, `known`: a file of `plan
    calibrate`; their constants go before the public ones on the devices that they ran on.

    Raises BadInput for unknown names (TL201, TL203, TL204), for values that cannot be or contradict each other, and
    where no device does what was asked, with the nearest that one does (TL231).
    """
    asked = ChooseAsked.read(VERB.name, {"model": model, **words})
    whole = _with_this(catalogue_of(catalogue_folder(asked.catalogue)), asked.among_devices, asked.probe)
    own = _owns(asked, whole)
    share = shares_of(asked.training, asked.inference)
    served = subject_of(asked.model, whole)
    trained = subject_of(asked.training_model, whole) if asked.training_model else served
    _no_work(
        "inference", share < 1, {"users": asked.users, "speed": asked.speed, "ttft": asked.ttft, "beside": asked.beside}
    )
    _no_work("training", share > 0, {"sequences": asked.sequences, "within": asked.within, "tokens": asked.tokens,
                                     "training-model": asked.training_model})  # fmt: skip
    needs, notes = needs_of(asked.ecc, asked.datacentre, asked.on_premise, asked.compliance)
    notes = (*served.assumed, *notes)
    if asked.training is None and asked.inference is None:
        notes += (assumed("split", "half of the hours"),)
    serving = None
    if share < 1:
        mine = own.get("serving")
        serving, more = _serving(served, asked.users, asked.context, asked, mine)
        others = [
            _serving(*each, asked, mine)[0] for each in beside_of(asked.beside, asked.users, asked.context, whole)
        ]
        serving = replace(serving, beside=tuple(others))
        notes += (*more, *(note for each in others for note in each.subject.assumed))
    taught = None
    if share > 0:
        taught, more = _training(trained, asked, own.get("training"))
        notes += more
    site = Site(needs, asked.power, RACK if asked.most_devices is None else asked.most_devices)
    wanted = Wanted(serving, taught, share, site, DAY_H if asked.duty is None else asked.duty)
    found = choice(wanted, among(asked.among_devices, whole, needs), whole, own)
    if found.impossible is not None:
        raise BadInput(clause_of(nearest(found, among(asked.among_devices, whole, needs), whole)), code=UNREADABLE)
    best = {each.candidates[0].device for each in found.rankings}
    notes += tuple(note for device in whole.devices if device.name in best for note in unverified(device))
    return ChooseResult(found, notes)


def _owns(asked: ChooseAsked, whole: Catalogue) -> Owns:
    """Constants of one's own by lens."""
    if asked.known is None and asked.like is None:
        return {}
    from twinlens.api.plan.like import owns_of  # what reads runs is not loaded where nobody names one

    return owns_of(asked.known, asked.like, whole)


def _with_this(whole: Catalogue, among_devices: str | None, probe: str | Path | None) -> Catalogue:
    """The catalogue, and this machine in it where it was probed or named."""
    if probe is None and THIS not in [each.strip() for each in (among_devices or "").split(",")]:
        return whole
    return replace(whole, devices=(*whole.devices, this_device(probe)))


def _serving(
    subject: Subject, users: int | None, context: int | None, asked: ChooseAsked, own: Own | None
) -> tuple[ServingWanted, tuple[Finding, ...]]:
    whole, shape = context_of(context, subject), _shape(subject)
    if whole > shape.max_context:
        raise BadInput(
            f"--context {whole:,} is more than the {shape.max_context:,} positions of {subject.name}", code=UNREADABLE
        )
    out = asked.answer or min(512, max(1, whole // 4))
    if out >= whole:
        raise BadInput(
            f"--answer {out:,} leaves no prompt in --context {whole:,}; write at most --answer {whole - 1:,}"
            if whole > 1 else "--context is a prompt and an answer, 2 tokens at least", code=UNREADABLE,
        )  # fmt: skip
    notes: tuple[Finding, ...] = () if asked.speed is not None else (assumed("speed", round(1 / _SLOW)),)
    notes += () if users is not None else (assumed("users", 1),)
    notes += () if asked.answer is not None else (assumed("answer", out),)
    served = served_in(asked.precision, subject)
    found = ServingWanted(subject, shape, users or 1, whole - out, out, served, asked.speed or _SLOW, asked.ttft)
    if own is not None:  # the engine of the runs
        return replace(found, engine=own.engine), notes
    return found, (*notes, assumed("engine", found.engine, lens="inference"))


def _training(subject: Subject, asked: ChooseAsked, own: Own | None) -> tuple[TrainingWanted, tuple[Finding, ...]]:
    long, train, shape = asked.length or 4096, cast(Method, asked.train), _shape(subject)
    if (asked.tokens is None) != (asked.within is None):
        raise BadInput("a deadline is --tokens and --within together: --tokens 100M --within 12h", code=UNREADABLE)
    rate = asked.tokens / asked.within if asked.tokens and asked.within else None
    formats = precisions_of("training-precision", asked.training_precision, TRAINED_IN)
    found = TrainingWanted(subject, shape, train, asked.sequences or 128, long, formats, rate, tokens=asked.tokens)
    notes = () if asked.sequences and asked.length else (assumed("batch", found.sequences, length=long),)
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
