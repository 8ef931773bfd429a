"""The verb that says whether a model fits: from words to a plan, and from a plan to an answer with its arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinlens.api.plan.amount import tokens_of
from twinlens.api.plan.as_json import as_json
from twinlens.api.plan.asked import asked_device, beside_of, context_of, kv_format_of, subject_of, weight_format_of
from twinlens.api.plan.like_memory import LikeMemory, like_memory
from twinlens.api.plan.number import UNREADABLE, count_of, one_of
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
from twinlens.system.catalogue_folder import catalogue_folder
from twinlens.theory.layout import LAYOUTS, OPTIMIZERS


@dataclass(frozen=True, slots=True, repr=False)
class FitResult:
    """An answer: whether it fits, where it would, and why. `notes`: how words were read."""

    answer: Fit
    notes: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """The screen that the command prints."""
        from twinlens.reporting.screen.plan_fit import fit_screen
        from twinlens.reporting.text.table import plain

        return plain(fit_screen(self.answer, self.notes), 80).rstrip("\n")

    @property
    def fits(self) -> bool | None:
        return self.answer.fits

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), self.notes)


def fit(
    model: str | None = None,
    *,
    users: object = None,
    context: object = None,
    device: str | None = None,
    devices: object = None,
    precision: str | None = None,
    kv: str | None = None,
    train: str | None = None,
    probe: str | Path | None = None,
    like: str | Path | None = None,
    beside: str | None = None,
    catalogue: str | Path | None = None,
    **options: object,
) -> FitResult:
    """Whether `model` fits: `fit("70B", users=16, context="32K", device="B200")`, `fit("70B", train="full")`.

    `beside`: other models that are served on the same devices, "qwen3-8b,8B:32:4K", each to as many users of as
    many tokens unless its own follow. `like`: a run,
    whose memory by part goes before the arithmetic. Options of serving: runtime, max_sequences, pipeline, groups (of
    attention that share experts). Of training
    (`train` is full, lora or qlora): optimizer, layout, batch, recompute, loss, rank, zero, tensor, pipeline, expert.
    Raises BadInput for unknown names (TL201, TL203, TL204), and for values that cannot be or belong to the other lens
    (TL231).
    """
    whole = catalogue_of(catalogue_folder(catalogue))
    seen = like_memory(like) if like is not None else None
    if model is not None:
        subject = subject_of(model, whole)
    elif seen is not None:
        subject = seen.plan.subject
    else:
        raise BadInput("name a model: --model 70B; --like RUN has one of its own", code=UNREADABLE)
    asked, notes = asked_device(device, probe, whole)
    many = count_of("devices", 1 if devices is None else devices)
    if train is None and seen is not None and isinstance(seen.plan, Training):
        train = seen.plan.method
    if train is not None:
        _refuse("training", {"users": users, "kv": kv, "precision": precision, "beside": beside})
        plan, ways = training_of(subject, train, context, options)
        plan = _as_measured(plan, seen, given=context is not None, options=options)
        return FitResult(training_answer(plan, asked, many, ways, whole.devices), notes)
    serving = serving_of(subject, users, context, precision, kv, options)
    serving = _as_served(serving, seen, users, context, precision)
    others = beside_of(beside, users, context, whole)
    serving = replace(serving, beside=tuple(serving_of(*each, precision, kv, options) for each in others))
    if devices is None:
        many = serving.pipeline * serving.groups
    if many % (serving.pipeline * serving.groups):
        said = (("pipeline", serving.pipeline), ("groups", serving.groups))
        named = " × ".join(f"--{name} {degree}" for name, degree in said if degree > 1)
        raise BadInput(f"--devices {many} is no multiple of {named}", code=UNREADABLE)
    serving, tensor = divided(serving, many, asked)
    return FitResult(serving_answer(serving, asked, tensor, whole.devices), notes)


def _as_measured(plan: Training, seen: LikeMemory | None, given: bool, options: Mapping[str, object]) -> Training:
    """The plan with the memory of the run, and its sizes where none were said. Raises BadInput (TL231)."""
    if seen is None:
        return plan
    if not isinstance(seen.plan, Training):
        raise BadInput("--like is a run of inference, and this is a plan of training", code=UNREADABLE)
    names = ("layout", "optimizer", "batch", "recompute", "loss")
    own: dict[str, Any] = {name: getattr(seen.plan, name) for name in names if options.get(name) is None}
    own |= {} if given else {"context": seen.plan.context}
    return replace(plan, like=seen.parts, **own)


def _as_served(
    plan: Serving, seen: LikeMemory | None, users: object, context: object, precision: str | None
) -> Serving:
    """The same of serving. Raises BadInput (TL231)."""
    if seen is None:
        return plan
    if not isinstance(seen.plan, Serving):
        raise BadInput("--like is a run of training, and this is a plan of inference", code=UNREADABLE)
    own: dict[str, Any] = {"like": seen.parts, "runtime": seen.plan.runtime, "sequences": plan.users}
    own |= {} if users is not None else {"users": seen.plan.users, "sequences": seen.plan.users}
    own |= {} if context is not None else {"context": seen.plan.context}
    own |= {} if precision is not None else {"weight_format": seen.plan.weight_format}
    return replace(plan, **own)


def serving_of(
    subject: Subject,
    users: object,
    context: object,
    precision: str | None,
    kv: str | None,
    options: Mapping[str, object],
) -> Serving:
    """A plan of serving from words. Raises BadInput (TL203, TL231)."""
    given = _given(options, OF_SERVING, "serving")
    held = weight_format_of(precision, subject)
    kv_name, kv_bytes = kv_format_of(kv, held)
    most = given.get("max_sequences")
    return Serving(
        subject,
        held,
        kv_name,
        kv_bytes,
        count_of("users", 1 if users is None else users),
        context_of(context, subject),
        RUNTIMES[one_of("runtime", given.get("runtime", "vllm"), RUNTIMES)],
        None if most is None else count_of("max-sequences", most),
        count_of("pipeline", given.get("pipeline", 1)),
        count_of("groups", given.get("groups", 1)),
    )


def training_of(subject: Subject, train: str, context: object, options: Mapping[str, object]) -> tuple[Training, Ways]:
    """A plan of training from words. Raises BadInput (TL231)."""
    given = _given(options, OF_TRAINING, "training")
    counts = {name: count_of(name, given.get(name, default)) for name, default in _COUNTS.items()}
    plan = Training(
        subject,
        one_of("train", train, ("full", "lora", "qlora")),  # type: ignore[arg-type]
        one_of("layout", given.get("layout", "16-bit-fp32-master"), LAYOUTS),
        one_of("optimizer", given.get("optimizer", "adamw"), OPTIMIZERS),
        tokens_of("context", "4K" if context is None else context),
        counts["batch"],
        one_of("recompute", given.get("recompute", "full"), ("none", "selective", "full")),  # type: ignore[arg-type]
        counts["rank"],
        one_of("loss", given.get("loss", "torch"), ("torch", "fused")),  # type: ignore[arg-type]
    )
    ways = counts["tensor"], counts["pipeline"], counts["expert"]
    zero = one_of("zero", str(given.get("zero", usual_zero(*ways))), ("0", "1", "2", "3"))
    return plan, Ways(*ways, int(zero))


_COUNTS = {"batch": 1, "rank": 16, "tensor": 1, "pipeline": 1, "expert": 1}
OF_SERVING = ("runtime", "max_sequences", "pipeline", "groups")
OF_TRAINING = ("optimizer", "layout", "recompute", "loss", "zero", *_COUNTS)


def _given(options: Mapping[str, object], known: Sequence[str], lens: str) -> dict[str, object]:
    """Options that were set. Raises BadInput (TL231) for those of the other lens."""
    given = {name: value for name, value in options.items() if value is not None}
    _refuse(lens, {name: value for name, value in given.items() if name not in known})
    return given


def _refuse(lens: str, wrong: Mapping[str, object]) -> None:
    for name, value in wrong.items():
        if value is not None:
            other = "leave --train out" if lens == "training" else "add --train full, lora or qlora"
            raise BadInput(f"--{name.replace('_', '-')} is no option of {lens}; {other}", code=UNREADABLE)
