"""The verb that says how much a machine serves or trains, and how fast: from words to a plan, and to its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from twinlens.api.plan.amount import rate_of, seconds_of, tokens_of
from twinlens.api.plan.as_json import as_json
from twinlens.api.plan.asked import asked_device, kv_format_of, subject_of, weight_format_of
from twinlens.api.plan.calibrate import Compared, constants
from twinlens.api.plan.copies import placed
from twinlens.api.plan.like import Like, like_runs
from twinlens.api.plan.number import UNREADABLE, above_zero, count_of, one_of
from twinlens.api.plan.steps import OF_TRAINING, steps_of
from twinlens.errors import BadInput
from twinlens.planning.capacity.serving import ServingCapacity, ServingPlan, serving_capacity
from twinlens.planning.capacity.target import Headroom, Of, Target
from twinlens.planning.capacity.training import TrainingCapacity, training_capacity
from twinlens.planning.figure import assumed
from twinlens.planning.prediction.answer import refuse_processor
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.shipped import shipped
from twinlens.planning.prediction.stored import spoken, stored
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.spec.device import Device
from twinlens.system.catalogue_folder import catalogue_folder
from twinlens.theory.parameter import parameters

_TARGET = Target(2.0, 0.1)
"""Where none is given: 2 s to the first token, then 10 tokens/s, about as fast as people read."""
_SHORT = 8192.0
"""Tokens of a prompt up to which 2 s are enough; longer ones have as much again for each as many."""
OF_SERVING = ("users", "rate", "prompt", "answer", "kv", "groups", "ttft", "tpot", "of", "peak", "spare", "like")


@dataclass(frozen=True, slots=True)
class CapacityResult:
    """An answer, how words were read (`notes`), and measured runs beside their predictions (`measured`)."""

    answer: ServingCapacity | TrainingCapacity
    notes: tuple[Finding, ...] = ()
    measured: tuple[Compared, ...] = ()

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        rows = [{"run": c.run, "metric": c.metric, "measured_s": c.measured_s, "public_s": c.public_s, "own_s": c.own_s}
                for c in self.measured]  # fmt: skip
        return as_json(self.why(), self.notes, measured=rows)


def capacity(
    model: str | None = None,
    *,
    device: str | None = None,
    devices: object = None,
    precision: str | None = None,
    tensor: object = None,
    engine: str | None = None,
    train: str | None = None,
    known: str | Path | None = None,
    probe: str | Path | None = None,
    catalogue: str | Path | None = None,
    **options: object,
) -> CapacityResult:
    """How much `device` serves, or how long training takes: `capacity("8B", device="H100", users=32, prompt="2K")`.

    Options of serving: users or rate, prompt, answer, kv (format of the cache), groups (of attention that share the
    experts), ttft, tpot, of (what keeps them: p99 or mean), peak, spare, like (measured runs).
    Of training (`train` is full or lora): pipeline, expert, batch,
    microbatch, context, recompute, tokens, within, effective. `known`: a file of `plan calibrate`. Raises BadInput for
    unknown names, and (TL231) for values that cannot be.
    """
    given = {name: value for name, value in options.items() if value is not None}
    lens, own = ("serving", OF_SERVING) if train is None else ("training", OF_TRAINING)
    for name in given:
        if name not in own:
            other = "leave --train out" if lens == "training" else "add --train full or lora"
            raise BadInput(f"--{name} is no option of {lens}; {other}", code=UNREADABLE)
    whole = catalogue_of(catalogue_folder(catalogue))
    card, read = asked_device(device, probe, whole)
    notes = [*read]
    subject = _subject(model, whole, notes) if model is not None else None
    if train is not None:
        mine = constants(known, "training") if known else None
        steps, more = steps_of(
            train, _needed(subject), _known_device(card), devices, precision, tensor, engine, given, mine
        )
        return CapacityResult(training_capacity(steps), (*notes, *more))
    plain = None if precision is None else spoken(weight_format_of(precision, subject))
    if plain is not None:
        stored(plain)
    degree = 1 if tensor is None else count_of("tensor", tensor)
    like = like_runs(str(given["like"]), card, plain, degree, engine) if "like" in given else None
    if like and subject is None:
        base = like.question
        subject = Subject(base.model, parameters(base.shape).total, base.shape)
    used = constants(known) if known else like.known if like else shipped()["serving"]
    question = _question(
        _needed(subject), card or (like.question.device if like else _known_device(card)), plain, engine, like, given,
        notes,
    )  # fmt: skip
    refuse_processor(question.device, used)
    target = _target(question, given, notes)
    users = question.users
    question, copies = placed(question, devices, tensor, given.get("groups"), used, target, notes)
    plan = ServingPlan(question, copies, target, _headroom(given, notes), used, users)
    return CapacityResult(serving_capacity(plan), tuple(notes), like.rows if like else ())


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
    subject: Subject, card: Device, precision: str | None, engine: str | None, like: Like | None,
    given: Mapping[str, object], notes: list[Finding],
) -> ServingQuestion:  # fmt: skip
    """The whole load on one copy; `placed` divides it."""
    base, shape = like.question if like else None, subject.shape
    assert shape is not None
    if "users" in given and "rate" in given:
        raise BadInput("--users ask again at once, --rate comes at random; give one of the two", code=UNREADABLE)
    users = float(count_of("users", given["users"])) if "users" in given else None
    rate = rate_of("rate", given["rate"]) if "rate" in given else None
    if users is None and rate is None:
        users, rate = (base.users, base.requests_per_s) if base else (1.0, None)
        notes += [] if base else [assumed("capacity-users", 1)]
    lengths = {"prompt": 1024.0, "answer": 256.0}
    for each in lengths:
        if each in given:
            lengths[each] = float(tokens_of(each, given[each]))
        elif base:
            lengths[each] = float(getattr(base, each))
        else:
            notes.append(assumed(f"capacity-{each}", round(lengths[each])))
    if sum(lengths.values()) > shape.max_context:
        said = " and ".join(f"--{each} {round(many):,}" for each, many in lengths.items())
        raise BadInput(f"{said} are more than the {shape.max_context:,} positions of {subject.name}", code=UNREADABLE)
    kept = precision or (base.precision if base else spoken(weight_format_of(None, subject)))
    stored(kept)
    for what, known, taken in (("precision", precision or base, kept), ("engine", engine or base, "vllm")):
        if not known:
            notes.append(assumed(f"capacity-{what}", taken))
    kv = kv_format_of(str(given["kv"]), kept)[1] if "kv" in given else None
    return ServingQuestion(
        subject.name, shape, card, kept, lengths["prompt"], lengths["answer"], users, rate, subject=subject,
        kv_bytes=kv, engine=engine.lower() if engine else base.engine if base else "vllm",
    )  # fmt: skip


def _target(question: ServingQuestion, given: Mapping[str, object], notes: list[Finding]) -> Target:
    limits = {name: seconds_of(name, given[name]) for name in ("ttft", "tpot") if name in given}
    of: Any = one_of("of", given.get("of", "p99"), get_args(Of))
    if not limits:
        usual = replace(
            _TARGET, of=of, ttft_s=round(float(_TARGET.ttft_s or 0) * max(question.prompt / _SHORT, 1.0), 1)
        )
        notes.append(assumed("capacity-target", "", ttft_s=usual.ttft_s, tpot_s=usual.tpot_s, of=of))
        return usual
    return Target(limits.get("ttft"), limits.get("tpot"), of)


def _headroom(given: Mapping[str, object], notes: list[Finding]) -> Headroom:
    peak = above_zero("peak", given["peak"]) if "peak" in given else 1.0
    spare = str(given.get("spare", 0)).strip()
    if not spare.isdecimal():
        raise BadInput(f"--spare {spare[:40]!r} is no count of copies; write --spare 1", code=UNREADABLE)
    if "peak" not in given and "spare" not in given:
        notes.append(assumed("capacity-headroom", ""))
    return Headroom(peak, int(spare))
