"""The verb that says how much a machine serves or trains, and how fast: from words to a plan, and to its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack, get_args

from twinlens.api.documented import Answered, as_json
from twinlens.api.plan.reading.amount import UNREADABLE, above_zero
from twinlens.api.plan.reading.options import COUNT, PER_S, RUN, TOKENS, Groups, Kv, Tpot, Ttft, one
from twinlens.api.plan.reading.subject import asked_device, kv_format_of, subject_of, weight_format_of
from twinlens.api.plan.steps import Capacity, TrainingCapacityAsked, steps_of
from twinlens.api.question import Kind, Verb, asks, option
from twinlens.errors import BadInput
from twinlens.planning.capacity.serving import ServingCapacity, ServingPlan, serving_capacity
from twinlens.planning.capacity.target import Headroom, Of, Target
from twinlens.planning.capacity.training import TrainingCapacity, training_capacity
from twinlens.planning.prediction.answer import refuse_processor
from twinlens.planning.prediction.band import shipped
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.work import spoken, stored
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.spec.device import Device
from twinlens.system.home_folder import catalogue_folder
from twinlens.theory.figure import assumed
from twinlens.theory.parameter import parameters

if TYPE_CHECKING:
    from twinlens.api.plan.calibrate import Compared
    from twinlens.api.plan.like import Like
    from twinlens.api.words import PlanCapacityWords
    from twinlens.planning.prediction.calibrate import Lens
    from twinlens.reporting.document.block import Document

import math

from twinlens.api.plan.reading.amount import count_of
from twinlens.planning.capacity.target import answer_at, is_rate, load_of
from twinlens.planning.fit.answer import copy_layouts, may_group, tensor_degrees
from twinlens.planning.fit.serving_answer import refuse_impossible
from twinlens.planning.prediction.answer import plan_of, room, serving_answer
from twinlens.planning.prediction.band import Calibrated

_TARGET = Target(2.0, 0.1)
"""Where none is given: 2 s to the first token, then 10 tokens/s, about as fast as people read."""
_SHORT = 8192.0
"""Tokens of a prompt up to which 2 s are enough; longer ones have as much again for each as many."""


def _copies_of(name: str, word: object) -> int:
    text = str(word).strip()
    if not text.isdecimal() or len(text) > 9:
        raise BadInput(f"--{name} {text[:40]!r} is no count of copies; write --{name} 1", code=UNREADABLE)
    return int(text)


class ServingCapacityAsked(Capacity):
    """How much a machine serves."""

    lens: ClassVar = "serving"
    instead: ClassVar = "add --train full or lora"
    users: Annotated[int, option("Who ask again as soon as they have it.", COUNT)] | None = None
    rate: Annotated[float, option("Requests per second, at random.", PER_S)] | None = None
    prompt: Annotated[int, option("Of a request: 1024, 2K.", TOKENS)] | None = None
    answer: Annotated[int, option("Of a request.", TOKENS)] | None = None
    kv: Kv | None = None
    groups: Groups | None = None
    ttft: Ttft | None = None
    tpot: Tpot | None = None
    of: Annotated[str, option("What keeps a target: p99 or mean.", one("WHAT", get_args(Of)))] = "p99"
    peak: Annotated[float, option("Peak of the load over it: 1.5.", Kind("FACTOR", above_zero))] | None = None
    spare: Annotated[int, option("Copies that may fail at a time.", Kind("COPIES", _copies_of))] | None = None
    like: Annotated[Path, option("Your own served runs go before datasheets.", RUN)] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class CapacityResult(Answered):
    """An answer, how words were read (`notes`), and measured runs beside their predictions (`measured`)."""

    answer: ServingCapacity | TrainingCapacity
    notes: tuple[Finding, ...] = ()
    measured: tuple[Compared, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.capacity import capacity_document

        rows = [(each.run, each.metric, each.measured_s, each.own_s) for each in self.measured]
        return capacity_document(self.answer, self.notes, rows)

    def to_json(self) -> dict[str, Any]:
        rows = [{"run": c.run, "metric": c.metric, "measured_s": c.measured_s, "public_s": c.public_s, "own_s": c.own_s}
                for c in self.measured]  # fmt: skip
        return as_json(self.why(), self.notes, measured=rows)


VERB = Verb(
    "plan capacity",
    (ServingCapacityAsked, TrainingCapacityAsked),
    "--model 8B --device H100 --rate 4 --prompt 1K",
    "Every figure with its formula.",
)


@asks(VERB)
def capacity(model: str | None = None, **words: Unpack[PlanCapacityWords]) -> CapacityResult:
    """How much it serves or trains and how fast, with bands: latency, users at a target, devices, time to train.

    `capacity("8B", device="H100", users=32, prompt="2K")`. `known`: a file of `plan calibrate`. Raises BadInput for
    unknown names, and (TL231) for values that cannot be.
    """
    given = {"model": model, **words}
    if given.get("train") is not None:
        return _training(TrainingCapacityAsked.read(VERB.name, given, ServingCapacityAsked))
    return served(ServingCapacityAsked.read(VERB.name, given, TrainingCapacityAsked))


def _training(asked: TrainingCapacityAsked) -> CapacityResult:
    subject, card, notes = _read(asked)
    mine = _constants(asked, "training")
    steps, more = steps_of(asked, _needed(subject), _known_device(card), mine)
    return CapacityResult(training_capacity(steps), (*notes, *more))


def served(asked: ServingCapacityAsked) -> CapacityResult:
    """How much a machine serves, where the words are read already."""
    subject, card, notes = _read(asked)
    plain = None if asked.precision is None else spoken(weight_format_of(asked.precision, subject))
    if plain is not None:
        stored(plain)
    like = _like(asked, card, plain)
    if like and subject is None:
        base = like.question
        subject = Subject(base.model, parameters(base.shape).total, base.shape)
    used = _constants(asked, "serving") or (like.known if like else shipped()["serving"])
    on = card or (like.question.device if like else _known_device(card))
    question = _question(_needed(subject), on, plain, like, asked, notes)
    refuse_processor(question.device, used)
    target = _target(question, asked, notes)
    users = question.users
    question, copies = placed(question, asked.devices, asked.tensor, asked.groups, used, target, notes)
    plan = ServingPlan(question, copies, target, _headroom(asked, notes), used, users)
    return CapacityResult(serving_capacity(plan), tuple(notes), like.rows if like else ())


# What reads runs is not loaded where nobody names one.


def _constants(asked: Capacity, lens: Lens) -> Calibrated | None:
    if asked.known is None:
        return None
    from twinlens.api.plan.calibrate import constants

    return constants(asked.known, lens)


def _like(asked: ServingCapacityAsked, card: Device | None, precision: str | None) -> Like | None:
    if asked.like is None:
        return None
    from twinlens.api.plan.like import like_runs

    return like_runs(asked.like, card, precision, asked.tensor or 1, asked.engine)


def _read(asked: Capacity) -> tuple[Subject | None, Device | None, list[Finding]]:
    whole = catalogue_of(catalogue_folder(asked.catalogue))
    card, read = asked_device(asked.device, asked.probe, whole)
    notes = [*read]
    return _subject(asked.model, whole, notes) if asked.model is not None else None, card, notes


def _subject(model: str, whole: Catalogue, notes: list[Finding]) -> Subject:
    subject = subject_of(model, whole)
    if subject.shape is None:
        raise BadInput(
            f"{model[:40]} is a size whose layers are not known; name a model, or give its config.json", code=UNREADABLE
        )
    notes.extend(subject.assumed)
    return subject


def _needed(subject: Subject | None) -> Subject:
    if subject is None:
        raise BadInput("name a model: --model llama-3.1-8b; --like RUN has one of its own", code=UNREADABLE)
    return subject


def _known_device(card: Device | None) -> Device:
    if card is None:
        raise BadInput("name a device: --device H100, --device this, or --probe FILE", code=UNREADABLE)
    return card


def _question(
    subject: Subject, card: Device, precision: str | None, like: Like | None, asked: ServingCapacityAsked,
    notes: list[Finding],
) -> ServingQuestion:  # fmt: skip
    """The whole load on one copy; `placed` divides it."""
    base, shape = like.question if like else None, subject.shape
    assert shape is not None
    if asked.users is not None and asked.rate is not None:
        raise BadInput("--users ask again at once, --rate comes at random; give one of the two", code=UNREADABLE)
    users, rate = None if asked.users is None else float(asked.users), asked.rate
    if users is None and rate is None:
        users, rate = (base.users, base.requests_per_s) if base else (1.0, None)
        notes += [] if base else [assumed("capacity-users", 1)]
    lengths = {"prompt": 1024.0, "answer": 256.0}
    for each in lengths:
        if (said := getattr(asked, each)) is not None:
            lengths[each] = float(said)
        elif base:
            lengths[each] = float(getattr(base, each))
        else:
            notes.append(assumed(f"capacity-{each}", round(lengths[each])))
    if sum(lengths.values()) > shape.max_context:
        told = " and ".join(f"--{each} {round(many):,}" for each, many in lengths.items())
        raise BadInput(f"{told} are more than the {shape.max_context:,} positions of {subject.name}", code=UNREADABLE)
    kept = precision or (base.precision if base else spoken(weight_format_of(None, subject)))
    stored(kept)
    for what, known, taken in (("precision", precision or base, kept), ("engine", asked.engine or base, "vllm")):
        if not known:
            notes.append(assumed(f"capacity-{what}", taken))
    kv = kv_format_of(asked.kv, kept)[1] if asked.kv else None
    return ServingQuestion(
        subject.name, shape, card, kept, lengths["prompt"], lengths["answer"], users, rate, subject=subject,
        kv_bytes=kv, engine=asked.engine.lower() if asked.engine else base.engine if base else "vllm",
    )  # fmt: skip


def _target(question: ServingQuestion, asked: ServingCapacityAsked, notes: list[Finding]) -> Target:
    of: Any = asked.of
    if asked.ttft is not None or asked.tpot is not None:
        return Target(asked.ttft, asked.tpot, of)
    usual = replace(_TARGET, of=of, ttft_s=round(float(_TARGET.ttft_s or 0) * max(question.prompt / _SHORT, 1.0), 1))
    notes.append(assumed("capacity-target", "", ttft_s=usual.ttft_s, tpot_s=usual.tpot_s, of=of))
    return usual


def _headroom(asked: ServingCapacityAsked, notes: list[Finding]) -> Headroom:
    if asked.peak is None and asked.spare is None:
        notes.append(assumed("capacity-headroom", ""))
    return Headroom(asked.peak or 1.0, asked.spare or 0)


# Devices divided into copies of a model: in the layout that was asked for, or in the one that keeps the target.

_DEGREES = (1, 2, 4, 8, 16, 32, 64, 72)
Copy = tuple[int, int]
"""Tensor degree and groups of one copy."""


def placed(
    whole: ServingQuestion, devices: object, tensor: object, groups: object, known: Calibrated, target: Target,
    notes: list[Finding],
) -> tuple[ServingQuestion, int]:  # fmt: skip
    """One copy with its share of the load, and how many copies there are.

    Without a layout, the smallest that keeps the target at this load, or that comes nearest to it: a tensor group, or
    groups that share the experts. Without a number of devices, the smallest with room for one sequence. Raises BadInput
    where none has, and (TL231) where a layout does not divide the devices.
    """
    many = None if devices is None else count_of("devices", devices)
    asked = {name: count_of(name, word) for name, word in (("tensor", tensor), ("groups", groups)) if word is not None}
    if asked:
        copy = asked.get("tensor", 1), asked.get("groups", 1)
    else:
        roomy = with_room(whole, many or max(8, whole.device.domain), known)
        legal = [each for each in roomy if many and many % math.prod(each) == 0] or roomy[:1]
        copy = _best(whole, many or math.prod(legal[0]), legal, known, target)
        notes += [assumed("capacity-groups", copy[1], tensor=copy[0])] if copy[1] > 1 else []
        notes += [assumed("capacity-tensor", copy[0])] if copy[1] == 1 < copy[0] else []
    each, many = math.prod(copy), many or math.prod(copy)
    if many % each:
        named = " × ".join(f"--{name} {degree}" for name, degree in asked.items())
        raise BadInput(f"--devices {many} does not divide by {named}", code=UNREADABLE)
    refuse_impossible(replace(plan_of(whole), groups=copy[1]), copy[0])
    return share_of(whole, many, copy), many // each


def share_of(whole: ServingQuestion, many: int, copy: Copy) -> ServingQuestion:
    """One of the copies with its share of the load."""
    copies = many // math.prod(copy)
    users = None if whole.users is None else max(whole.users / copies, 1.0)
    rate = None if whole.requests_per_s is None else whole.requests_per_s / copies
    return replace(whole, tensor=copy[0], data=copy[1], users=users, requests_per_s=rate)


def with_room(whole: ServingQuestion, most: int, known: Calibrated) -> list[Copy]:
    """Legal layouts of a copy with room for one sequence, on up to `most` devices, the smallest first.

    Raises BadInput where none has it.
    """
    legal = [(degree, 1) for degree in tensor_degrees(whole.shape, most) if degree in _DEGREES]
    largest = replace(whole, tensor=legal[-1][0])
    if may_group(whole.device) and plan_of(whole).runtime.shares_experts:
        legal += copy_layouts(whole.shape, most)
    legal.sort(key=lambda copy: (math.prod(copy), copy[1]))
    roomy = [copy for copy in legal if room(replace(whole, tensor=copy[0], data=copy[1])) >= 1]
    if not roomy:
        serving_answer(replace(largest, users=1.0, requests_per_s=None), known)
    return roomy or [(1, 1)]


def _best(whole: ServingQuestion, many: int, legal: list[Copy], known: Calibrated, target: Target) -> Copy:
    """The first layout that keeps the target, else the one whose times are nearest to it."""
    if len(legal) == 1:
        return legal[0]
    shares = {copy: share_of(whole, many, copy) for copy in legal}
    times = {copy: _times_over(share, known, target) for copy, share in shares.items()}
    crowded = {copy: not is_rate(share) and load_of(share) > room(share) for copy, share in shares.items()}

    def missed(copy: Copy) -> tuple[bool, float, int, int]:
        return times[copy] > 1 or crowded[copy], max(times[copy], 1.0), math.prod(copy), copy[1]

    return min(legal, key=missed)


def _times_over(copy: ServingQuestion, known: Calibrated, target: Target) -> float:
    """The latencies over their limits, the larger of the two; infinite where the queue has no end."""
    load = copy.requests_per_s if is_rate(copy) else copy.users
    answer = answer_at(copy, float(load or 0), known)
    if answer is None:
        return float("inf")
    tail = (answer.tail.ttft_s, answer.tail.tpot_s)
    ttft_s, tpot_s = tail if target.of == "p99" else (answer.ttft_s.value, answer.tpot_s.value)
    pairs = ((ttft_s, target.ttft_s), (tpot_s, target.tpot_s))
    return max((value / limit for value, limit in pairs if limit is not None), default=0.0)
