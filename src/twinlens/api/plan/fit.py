"""The verb that says whether a model fits: from words to a plan, and from a plan to an answer with its arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack

from twinlens.api.documented import Answered
from twinlens.api.plan.reading.amount import UNREADABLE
from twinlens.api.plan.reading.options import (
    COUNT,
    NAMES,
    RUN,
    TOKENS,
    Catalogue,
    Device,
    Devices,
    Groups,
    Kv,
    Model,
    Precision,
    Probe,
    Users,
    one,
)
from twinlens.api.plan.reading.subject import (
    asked_device,
    beside_of,
    context_of,
    kv_format_of,
    subject_of,
    weight_format_of,
)
from twinlens.api.question import Question, Verb, asks, option
from twinlens.errors import BadInput
from twinlens.planning.fit.answer import Fit
from twinlens.planning.fit.runtime import RUNTIMES
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.serving_answer import divided, serving_answer
from twinlens.planning.fit.training import Training
from twinlens.planning.fit.training_answer import Ways, training_answer, usual_zero
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import catalogue_of
from twinlens.system.home_folder import catalogue_folder
from twinlens.theory.memory import LAYOUTS, OPTIMIZERS

if TYPE_CHECKING:
    from twinlens.api.plan.like import LikeMemory
    from twinlens.api.words import PlanFitWords
    from twinlens.reporting.document.block import Document


class _Fit(Question):
    model: Model | None = None
    device: Device | None = None
    devices: Devices | None = None
    pipeline: Annotated[int, option("Pipeline parallel.", COUNT)] = 1
    probe: Probe | None = None
    like: Annotated[Path, option("A run of yours: its memory by part goes first.", RUN)] | None = None
    catalogue: Catalogue | None = None


class ServingFit(_Fit):
    """Whether a model fits that is served."""

    lens: ClassVar = "serving"
    instead: ClassVar = "add --train full, lora or qlora"
    users: Users | None = None
    context: Annotated[int, option("Of each user: 8192, 32K …", TOKENS)] | None = None
    precision: Precision | None = None
    kv: Kv | None = None
    runtime: Annotated[str, option("vllm or plain.", one("NAME", RUNTIMES))] = "vllm"
    max_sequences: Annotated[int, option("Most at a time.", COUNT)] | None = None
    groups: Groups = 1
    beside: Annotated[str, option("Other models on the same devices: 8B,qwen3-8b:32:4K.", NAMES)] | None = None


class TrainingFit(_Fit):
    """Whether a model fits that is trained."""

    lens: ClassVar = "training"
    instead: ClassVar = "leave --train out"
    train: Annotated[str, option("full, lora or qlora.", one("METHOD", ("full", "lora", "qlora")))]
    context: Annotated[int, option("Of a sequence: 4K.", TOKENS)] | None = None
    optimizer: Annotated[str, option("adamw, adamw-8bit …", one("NAME", OPTIMIZERS))] = "adamw"
    layout: Annotated[str, option("16-bit-fp32-master, fp32 …", one("NAME", LAYOUTS))] = "16-bit-fp32-master"
    batch: Annotated[int, option("Sequences at a time on each device.", COUNT)] = 1
    recompute: Annotated[str, option("none, selective or full.", one("HOW", ("none", "selective", "full")))] = "full"
    loss: Annotated[str, option("torch or fused cross-entropy.", one("KIND", ("torch", "fused")))] = "torch"
    rank: Annotated[int, option("Of adapters.", COUNT)] = 16
    zero: Annotated[str, option("0 to 3; 3 is FSDP.", one("STAGE", ("0", "1", "2", "3")))] | None = None
    tensor: Annotated[int, option("Tensor parallel, in training.", COUNT)] = 1
    expert: Annotated[int, option("Expert parallel.", COUNT)] = 1


@dataclass(frozen=True, slots=True, repr=False)
class FitResult(Answered):
    """An answer: whether it fits, where it would, and why. `notes`: how words were read."""

    answer: Fit
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.fit import fit_document

        return fit_document(self.answer, self.notes)

    @property
    def fits(self) -> bool | None:
        return self.answer.fits


VERB = Verb("plan fit", (ServingFit, TrainingFit), "--model 70B --device H100 --users 16 --context 8K",
            why="Every figure with its formula, and legal degrees.")  # fmt: skip


@asks(VERB)
def fit(model: str | None = None, **words: Unpack[PlanFitWords]) -> FitResult:
    """Will it fit, serving or training: on which devices, with what head-room, and what flips the answer.

    `fit("70B", users=16, context="32K", device="B200")`, `fit("70B", train="full")`. `beside`: other models that are
    served on the same devices, "qwen3-8b,8B:32:4K", each to as many users of as many tokens unless its own follow.
    `like`: a run, whose memory by part goes before the arithmetic. Raises BadInput for unknown names (TL201, TL203,
    TL204), and for values that cannot be or belong to the other lens (TL231).
    """
    given: dict[str, Any] = {"model": model, **words}
    seen = _seen(given["like"]) if given.get("like") is not None else None
    if given.get("train") is None and seen is not None and isinstance(seen.plan, Training):
        given["train"] = seen.plan.method
    if given.get("train") is not None:
        return _training(TrainingFit.read(VERB.name, given, ServingFit), seen)
    return _serving(ServingFit.read(VERB.name, given, TrainingFit), seen)


def _seen(like: Any) -> LikeMemory:
    from twinlens.api.plan.like import like_memory  # what reads runs is not loaded where nobody names one

    return like_memory(like)


def _subject(asked: _Fit, seen: LikeMemory | None) -> Subject:
    if asked.model is not None:
        return subject_of(asked.model, catalogue_of(catalogue_folder(asked.catalogue)))
    if seen is None:
        raise BadInput("name a model: --model 70B; --like RUN has one of its own", code=UNREADABLE)
    return seen.plan.subject


def _training(asked: TrainingFit, seen: LikeMemory | None) -> FitResult:
    whole, subject = catalogue_of(catalogue_folder(asked.catalogue)), _subject(asked, seen)
    device, notes = asked_device(asked.device, asked.probe, whole)
    plan, ways = training_of(subject, asked)
    return FitResult(
        training_answer(_as_measured(plan, seen, asked), device, asked.devices or 1, ways, whole.devices), notes
    )


def _serving(asked: ServingFit, seen: LikeMemory | None) -> FitResult:
    whole, subject = catalogue_of(catalogue_folder(asked.catalogue)), _subject(asked, seen)
    device, notes = asked_device(asked.device, asked.probe, whole)
    plan = _as_served(serving_of(subject, asked), seen, asked)
    others = beside_of(asked.beside, asked.users, asked.context, whole)
    own = [(each, asked.model_copy(update={"users": many, "context": long})) for each, many, long in others]
    plan = replace(plan, beside=tuple(serving_of(*each) for each in own))
    copy = plan.pipeline * plan.groups
    many = copy if asked.devices is None else asked.devices
    if many % copy:
        said = (("pipeline", plan.pipeline), ("groups", plan.groups))
        named = " × ".join(f"--{name} {degree}" for name, degree in said if degree > 1)
        raise BadInput(f"--devices {many} is no multiple of {named}", code=UNREADABLE)
    plan, tensor = divided(plan, many, device)
    return FitResult(serving_answer(plan, device, tensor, whole.devices), notes)


def _as_measured(plan: Training, seen: LikeMemory | None, asked: TrainingFit) -> Training:
    """The plan with the memory of the run, and its sizes where none were said. Raises BadInput (TL231)."""
    if seen is None:
        return plan
    if not isinstance(seen.plan, Training):
        raise BadInput("--like is a run of inference, and this is a plan of training", code=UNREADABLE)
    names = {"layout", "optimizer", "batch", "recompute", "loss", "context"} - asked.model_fields_set
    return replace(plan, like=seen.parts, **{name: getattr(seen.plan, name) for name in names})


def _as_served(plan: Serving, seen: LikeMemory | None, asked: ServingFit) -> Serving:
    """The same of serving. Raises BadInput (TL231)."""
    if seen is None:
        return plan
    if not isinstance(seen.plan, Serving):
        raise BadInput("--like is a run of training, and this is a plan of inference", code=UNREADABLE)
    own: dict[str, Any] = {"like": seen.parts, "runtime": seen.plan.runtime, "sequences": plan.users}
    own |= {} if asked.users else {"users": seen.plan.users, "sequences": seen.plan.users}
    own |= {} if asked.context else {"context": seen.plan.context}
    own |= {} if asked.precision else {"weight_format": seen.plan.weight_format}
    return replace(plan, **own)


def serving_of(subject: Subject, asked: ServingFit) -> Serving:
    """A plan of serving. Raises BadInput (TL203) for an unknown format."""
    held = weight_format_of(asked.precision, subject)
    kv_name, kv_bytes = kv_format_of(asked.kv, held)
    return Serving(
        subject, held, kv_name, kv_bytes, asked.users or 1, context_of(asked.context, subject), RUNTIMES[asked.runtime],
        asked.max_sequences, asked.pipeline, asked.groups,
    )  # fmt: skip


def training_of(subject: Subject, asked: TrainingFit) -> tuple[Training, Ways]:
    """A plan of training, and how devices share it."""
    sizes: Mapping[str, Any] = asked.model_dump(include={"layout", "optimizer", "batch", "recompute", "rank", "loss"})
    plan = Training(subject, asked.train, context=asked.context or 4096, **sizes)  # type: ignore[arg-type]
    ways = asked.tensor, asked.pipeline, asked.expert
    return plan, Ways(*ways, int(asked.zero or usual_zero(*ways)))
