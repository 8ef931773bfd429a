"""Words of a training plan read into a step: its batch, its layout, and how many tokens there are in what time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twinlens.api.plan.amount import seconds_of, tokens_of, trained_tokens_of
from twinlens.api.plan.format import predicted_format
from twinlens.api.plan.number import UNREADABLE, count_of, one_of, share_of
from twinlens.errors import BadInput
from twinlens.planning.capacity.memory import memory_of
from twinlens.planning.capacity.training import TrainingPlan
from twinlens.planning.figure import assumed
from twinlens.planning.fit.training_answer import usual_zero
from twinlens.planning.prediction.answer import refuse_processor
from twinlens.planning.prediction.question import TrainingQuestion
from twinlens.planning.prediction.shipped import Calibrated, shipped
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.device import Device

OF_TRAINING = ("pipeline", "expert", "batch", "microbatch", "context", "recompute", "tokens", "within", "effective")
_EFFECTIVE = 0.9


def steps_of(
    train: str,
    subject: Subject,
    device: Device,
    devices: object,
    precision: str | None,
    tensor: object,
    engine: str | None,
    given: Mapping[str, object],
    known: Calibrated | None = None,
) -> tuple[TrainingPlan, tuple[Finding, ...]]:
    """The plan, and what was taken for granted: the engine of one's own runs, where `known` is of some.

    Raises BadInput (TL231) for what cannot be.
    """
    method, shape = one_of("train", train, ("full", "lora")), subject.shape
    if shape is None:
        raise BadInput(f"the layers of {subject.name} are not known; name a model", code=UNREADABLE)
    notes = []
    many = count_of("devices", 1 if devices is None else devices)
    ways = {"tensor": count_of("tensor", 1 if tensor is None else tensor)}
    ways |= {name: count_of(name, given.get(name, 1)) for name in ("pipeline", "expert", "microbatch")}
    copies = max(many // (ways["tensor"] * ways["pipeline"]), 1)
    usual = max(copies * ways["microbatch"] * (8 if ways["pipeline"] == 1 else 4 * ways["pipeline"]), 1)
    if "batch" not in given:
        notes.append(assumed("capacity-batch", usual))
    gathered = many > 1 and usual_zero(ways["tensor"], ways["pipeline"], ways["expert"]) == 3
    known = known or shipped()["training"]
    refuse_processor(device, known)
    own = sorted(known.own.get("engine", ()))
    plain = own[0] if len(own) == 1 else "fsdp" if ways["tensor"] * ways["pipeline"] == 1 else "megatron"
    used = engine.lower() if engine else plain
    notes += [] if engine else [assumed("capacity-engine", used)]
    notes += [] if precision else [assumed("capacity-precision", "bf16")]
    recompute = one_of("recompute", given.get("recompute", "none"), ("none", "full")) == "full"
    question = TrainingQuestion(
        subject.name, shape, device, predicted_format(precision or "bf16"), many,
        float(count_of("batch", given.get("batch", usual))),
        float(tokens_of("context", given.get("context", "4K"))),
        float(ways["microbatch"]), ways["tensor"], ways["pipeline"], expert=ways["expert"], gathered=gathered,
        recompute=recompute, adapters=method == "lora", engine=used, subject=subject,
    )  # fmt: skip
    if "recompute" not in given:
        memory = memory_of(question)
        question = replace(question, recompute=memory is not None and memory.fits is False)
        notes.append(assumed("capacity-recompute", "full" if question.recompute else "none"))
    tokens = trained_tokens_of("tokens", given["tokens"]) if "tokens" in given else None
    within = seconds_of("within", given["within"]) if "within" in given else None
    if within is not None and tokens is None:
        raise BadInput("--within is the time of all tokens; give --tokens 300B, too", code=UNREADABLE)
    if tokens is not None and "effective" not in given:
        notes.append(assumed("capacity-effective", _EFFECTIVE))
    effective = share_of("effective", given.get("effective", _EFFECTIVE))
    if not effective:
        raise BadInput("--effective is a share above 0: what never works trains nothing", code=UNREADABLE)
    return TrainingPlan(question, known, tokens, effective, within), tuple(notes)
