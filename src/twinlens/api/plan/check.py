"""The verb that checks a plan before money or hours go: from words to one value with all its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack, cast

from twinlens.api.documented import Answered
from twinlens.api.plan.fit import ServingFit, TrainingFit, serving_of, training_of
from twinlens.api.plan.reading.amount import count_of, each_of, seconds_of, up_to
from twinlens.api.plan.reading.options import (
    FILE,
    NAME,
    TRAINED,
    Catalogue,
    Context,
    Devices,
    Model,
    Precision,
    Probe,
    Users,
    one,
)
from twinlens.api.plan.reading.options import (
    Device as DeviceName,
)
from twinlens.api.plan.reading.subject import asked_device, subject_of
from twinlens.api.plan.steps import MFU, TrainingCapacityAsked, steps_of
from twinlens.api.question import Kind, Question, Verb, asks, option
from twinlens.errors import BadInput
from twinlens.planning.capacity.training import devices_within, training_capacity
from twinlens.planning.check.answer import Check, Stack, rulings
from twinlens.planning.check.deadline import Mfu, deadlines, device_hours, exposure, run_time
from twinlens.planning.check.interconnect import Supply, joined, power_figures
from twinlens.planning.check.perceived import users_at
from twinlens.planning.fit.runtime import runtime_of
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.serving_answer import divided, refuse_impossible
from twinlens.planning.fit.serving_answer import placed as served_on
from twinlens.planning.fit.training import FROZEN, Method, Training
from twinlens.planning.fit.training_answer import Ways
from twinlens.planning.fit.training_answer import placed as trained_on
from twinlens.planning.prediction.place import is_calibrated_kind, is_rated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.work import spoken
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import catalogue_of
from twinlens.spec.compatibility import read_compatibility, shipped_rates, shipped_rules
from twinlens.spec.device import Device, Link
from twinlens.system.home_folder import catalogue_folder
from twinlens.theory.figure import Figure, Input, absent

if TYPE_CHECKING:
    from twinlens.api.words import PlanCheckWords
    from twinlens.reporting.document.block import Document

RUNTIMES = ("vllm", "trtllm", "llama.cpp")


@dataclass(frozen=True, slots=True, repr=False)
class CheckResult(Answered):
    """What was checked. `notes`: how words were read."""

    answer: Check
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.check import check_document

        return check_document(self.answer, self.notes)

    @property
    def passes(self) -> bool | None:
        return self.answer.passes


def _deadlines(name: str, word: object) -> tuple[float, ...]:
    """Seconds of one, or of several in one word: "12 h, 18 h"."""
    return tuple(seconds_of(name, each) for each in each_of(word))


class _Check(Question):
    model: Model
    device: DeviceName | None = None
    devices: Devices | None = None
    runtime: Annotated[str, option("vllm, trtllm or llama.cpp.", one("NAME", RUNTIMES))] | None = None
    driver: Annotated[str, option("570.124, as nvidia-smi says.", Kind("VERSION"))] | None = None
    hours: Annotated[float, option("That it runs.", Kind("HOURS", up_to(1e7)))] | None = None
    link: Annotated[str, option("Between devices: a link that list devices shows.", NAME)] | None = None
    volts: Annotated[float, option("230 unless you say.", Kind("VOLTS", up_to(1e5)))] = Supply().volts
    phases: Annotated[str, option("1 or 3.", one("COUNT", ("1", "3")))] = str(Supply().phases)
    rise: Annotated[float, option("Of the air: 15.", Kind("KELVIN", up_to(100.0)))] = Supply().rise_k
    host_watts: Annotated[float, option("Of all machines around the devices.", Kind("WATTS", up_to(1e8)))] | None = None
    table: Annotated[Path, option("Your rows of compatibility and failure rates.", FILE)] | None = None
    probe: Probe | None = None
    catalogue: Catalogue | None = None


class ServingCheck(_Check):
    """What must be true before money or hours go into serving."""

    lens: ClassVar = "serving"
    instead: ClassVar = "add --train full, lora or qlora"
    precision: Precision | None = None
    users: Users | None = None
    context: Context | None = None
    answer: Annotated[int, option("Of the context: 256.", Kind("TOKENS", count_of))] | None = None
    fast: Annotated[float, option("Tokens/s that feel fast: 30.", Kind("RATE", up_to(1e5)))] | None = None
    slow: Annotated[float, option("Tokens/s that feel slow: 10.", Kind("RATE", up_to(1e5)))] | None = None


class TrainingCheck(_Check):
    """What must be true before money or hours go into training."""

    lens: ClassVar = "training"
    instead: ClassVar = "leave --train out"
    train: Annotated[str, option("full, lora or qlora.", one("METHOD", ("full", "lora", "qlora")))]
    context: Context | None = None
    tokens: Annotated[float, option("To train on: 2B.", TRAINED)] | None = None
    deadline: Annotated[
        tuple[float, ...], option("Of training: '12 h', or several: '12 h, 18 h'.", Kind("TIME", _deadlines))
    ] = ()
    mfu: Annotated[Mfu, option("Taken of training: 0.3..0.5.", MFU)] | None = None


VERB = Verb("plan check", (ServingCheck, TrainingCheck), "--model 70B --device H100 --devices 4 --users 16",
            "Every figure with its formula, every row's source.")  # fmt: skip


@asks(VERB)
def check(model: str | None = None, **words: Unpack[PlanCheckWords]) -> CheckResult:
    """Before money or hours go: will it work together, power, heat, link, errors, deadline, users at a speed.

    `check("70B", device="H100", devices=8, runtime="vllm")`; training: `train`, `tokens` and `deadline`. `table`: your
    own rows of compatibility. Raises BadInput (TL201, TL203, TL204, TL231, TL232).
    """
    given = {"model": model, **words}
    if given.get("train") is not None:
        return _training(TrainingCheck.read(VERB.name, given, ServingCheck))
    return _serving(ServingCheck.read(VERB.name, given, TrainingCheck))


def _place(asked: _Check) -> tuple[Subject, Device, tuple[Finding, ...], Link | None]:
    """Model, device, notes on it, and what joins devices. Raises BadInput where no device is named."""
    whole = catalogue_of(catalogue_folder(asked.catalogue))
    subject = subject_of(asked.model, whole)
    on, notes = asked_device(asked.device, asked.probe, whole)
    if on is None:
        raise BadInput("a check is of a device; add --device H100, or --probe FILE of this machine", code="TL231")
    return subject, on, notes, whole.link(asked.link) if asked.link else whole.link_among(on, asked.devices or 1)


def _training(asked: TrainingCheck) -> CheckResult:
    subject, on, notes, link = _place(asked)
    many, share = asked.devices or 1, asked.mfu or Mfu()
    if asked.tokens is None and asked.deadline:
        raise BadInput("a deadline is of so many tokens; add --tokens 2B", code="TL231")
    plan, _ = training_of(subject, TrainingFit.model_construct(train=cast(Method, asked.train), context=asked.context))
    time: tuple[Figure, ...] = ()
    if asked.tokens is not None and asked.mfu is None and not is_calibrated_kind(on):
        time = _unsaid(on, len(asked.deadline))
    elif asked.tokens is not None and asked.mfu is None and plan.method != "qlora" and subject.shape and is_rated(on):
        time = _predicted(subject, on, asked)
    elif asked.tokens is not None:
        hours = device_hours(plan, on, asked.tokens, share)
        time = (hours, run_time(hours, many), *deadlines(hours, asked.deadline))
    ran = next((float(each.value) / 3600 for each in time if each.name == "run-time" and each.value is not None), None)
    stack = Stack(subject.name, FROZEN.get(plan.method, "bf16"), on, asked.runtime, asked.driver)
    memory = trained_on(plan, on, many, Ways())
    return CheckResult(_checked(asked, plan, stack, memory, ran, joined(plan, on, many, link, share), time=time), notes)


def _serving(asked: ServingCheck) -> CheckResult:
    subject, on, notes, link = _place(asked)
    many = asked.devices or 1
    words = asked.model_dump(include={"users", "context", "precision"})
    plan = serving_of(subject, ServingFit.model_construct(**words))
    plan, tensor = divided(replace(plan, runtime=runtime_of(asked.runtime or "vllm")), many, on)
    refuse_impossible(plan, tensor)
    stack = Stack(subject.name, plan.weight_format, on, asked.runtime, asked.driver)
    links, speed = joined(plan, on, many, link, Mfu()), _speed(plan, on, tensor, asked)
    return CheckResult(_checked(asked, plan, stack, served_on(plan, on, tensor), None, links, speed=speed), notes)


def _checked(
    asked: _Check, plan: Serving | Training, stack: Stack, memory: Any, ran: float | None, links: Any,
    time: tuple[Figure, ...] = (), speed: tuple[Figure, ...] = (),
) -> Check:  # fmt: skip
    """The plan with what is asked of every stack: rules, power and failures. `ran`: hours that were predicted."""
    rules, rates = read_compatibility(asked.table.expanduser()) if asked.table else ((), ())
    many, hours = asked.devices or 1, asked.hours if asked.hours is not None else ran
    supply = Supply(asked.volts, int(asked.phases), asked.rise, asked.host_watts)
    return Check(
        plan, stack, many, rulings(stack, (*rules, *shipped_rules())), memory,
        power_figures(stack.device, many, supply, hours), links,
        exposure(stack.device.name, many, hours, (*rates, *shipped_rates())), time, speed,
    )  # fmt: skip


def _unsaid(device: Device, targets: int) -> tuple[Figure, ...]:
    """No time on a processor: `plan capacity` predicts none, and shares of a peak are those of accelerators."""
    why = Finding("plan-unknown", "warns", "device-hours", {"model": device.name, "needs": "time"})
    names = (("device-hours", "device-hours"), ("run-time", "s"))
    return tuple(absent(*each, why) for each in (*names, *[("devices-needed", "devices")] * targets))


def _predicted(subject: Subject, device: Device, asked: TrainingCheck) -> tuple[Figure, ...]:
    """The time of `plan capacity`, by the same defaults: device-hours, time on these, devices for each deadline."""
    devices = asked.devices or 1
    words = asked.model_dump(include={"train", "devices", "tokens", "context"}, exclude_none=True)
    steps, _ = steps_of(TrainingCapacityAsked.model_construct(**words), subject, device)
    whole = training_capacity(steps).whole
    assert whole is not None
    taken = replace(whole, name="run-time")
    ends = [None if end is None else float(end) / 3600 * devices for end in (taken.value, taken.low, taken.high)]
    hours = Figure("device-hours", ends[0], "device-hours", "{0} × {1} / 3600 s",
                   (taken, Input("devices", devices, "devices")), ends[1], ends[2], taken.level)  # fmt: skip
    needed = (devices_within(replace(steps, within_s=target)) for target in asked.deadline)
    return (hours, taken, *(replace(each, name="devices-needed") for each in needed if each is not None))


def _speed(plan: Serving, device: Device, tensor: int, asked: ServingCheck) -> tuple[Figure, ...]:
    """Users at the two paces. A context of T tokens is a prompt of T less the answer."""
    fast, slow = asked.fast or 30.0, asked.slow or 10.0
    if slow >= fast:
        raise BadInput(f"--slow {slow:g} is to be below --fast {fast:g}, in tokens/s", code="TL231")
    answer = asked.answer or min(256, max(1, plan.context // 2))
    if answer >= plan.context:
        raise BadInput(f"--answer {answer} leaves nothing of a context of {plan.context} for a prompt", code="TL231")
    if plan.subject.shape is None:
        return ()
    kept = spoken(plan.weight_format)
    question = ServingQuestion(
        plan.subject.name, plan.subject.shape, device, kept, plan.context - answer, answer, users=1.0, tensor=tensor,
        data=plan.groups, engine=asked.runtime or "vllm", subject=plan.subject, kv_bytes=plan.kv_element_bytes,
    )  # fmt: skip
    return tuple(users_at(question, speed, f"users-{name}") for name, speed in (("fast", fast), ("slow", slow)))
