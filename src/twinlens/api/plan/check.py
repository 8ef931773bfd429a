"""The verb that checks a plan before money or hours go: from words to one value with all its arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from twinlens.api.documented import Documented, as_json
from twinlens.api.plan.fit import ServingFit, TrainingFit, serving_of, training_of
from twinlens.api.plan.reading.amount import count_of, seconds_of, up_to
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
from twinlens.planning.figure import Figure, Input, absent
from twinlens.planning.fit.runtime import runtime_of
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.serving_answer import divided, refuse_impossible
from twinlens.planning.fit.serving_answer import placed as served_on
from twinlens.planning.fit.training import FROZEN, Training
from twinlens.planning.fit.training_answer import Ways
from twinlens.planning.fit.training_answer import placed as trained_on
from twinlens.planning.prediction.place import is_calibrated_kind, is_rated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.work import spoken
from twinlens.planning.subject import Subject
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import catalogue_of
from twinlens.spec.compatibility import read_compatibility, shipped_rates, shipped_rules
from twinlens.spec.device import Device
from twinlens.system.home_folder import catalogue_folder

if TYPE_CHECKING:
    from twinlens.api.words import PlanCheckWords
    from twinlens.reporting.document.block import Document

RUNTIMES = ("vllm", "trtllm", "llama.cpp")


@dataclass(frozen=True, slots=True, repr=False)
class CheckResult(Documented):
    """What was checked. `notes`: how words were read."""

    answer: Check
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.check import check_document

        return check_document(self.answer, self.notes)

    @property
    def passes(self) -> bool | None:
        return self.answer.passes

    def why(self) -> dict[str, Any]:
        return encode(self.answer)

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), self.notes)


class CheckAsked(Question):
    """What must be true before money or hours go."""

    model: Model
    device: DeviceName | None = None
    devices: Devices | None = None
    precision: Precision | None = None
    runtime: Annotated[str, option("vllm, trtllm or llama.cpp.", one("NAME", RUNTIMES))] | None = None
    driver: Annotated[str, option("570.124, as nvidia-smi says.", Kind("VERSION"))] | None = None
    users: Users | None = None
    context: Context | None = None
    train: Annotated[str, option("full, lora or qlora.", one("METHOD", ("full", "lora", "qlora")))] | None = None
    tokens: Annotated[float, option("To train on: 2B.", TRAINED)] | None = None
    deadline: Annotated[str, option("Of training: '12 h', or several: '12 h, 18 h'.", Kind("TIME"))] | None = None
    mfu: Annotated[Mfu, option("Taken of training: 0.3..0.5.", MFU)] | None = None
    hours: Annotated[float, option("That it runs.", Kind("HOURS", up_to(1e7)))] | None = None
    link: Annotated[str, option("Between devices: `list devices`.", NAME)] | None = None
    volts: Annotated[float, option("230 unless you say.", Kind("VOLTS", up_to(1e5)))] = Supply().volts
    phases: Annotated[str, option("1 or 3.", one("COUNT", ("1", "3")))] = str(Supply().phases)
    rise: Annotated[float, option("Of the air: 15.", Kind("KELVIN", up_to(100.0)))] = Supply().rise_k
    host_watts: Annotated[float, option("Of all machines around the devices.", Kind("WATTS", up_to(1e8)))] | None = None
    answer: Annotated[int, option("Of the context: 256.", Kind("TOKENS", count_of))] | None = None
    fast: Annotated[float, option("Tokens/s that feel fast: 30.", Kind("RATE", up_to(1e5)))] | None = None
    slow: Annotated[float, option("Tokens/s that feel slow: 10.", Kind("RATE", up_to(1e5)))] | None = None
    table: Annotated[Path, option("Your rows of compatibility and failure rates.", FILE)] | None = None
    probe: Probe | None = None
    catalogue: Catalogue | None = None


VERB = Verb("plan check", (CheckAsked,), "--model 70B --device H100 --devices 4 --users 16",
            "Every figure with its formula, every row's source.")  # fmt: skip


@asks(VERB)
def check(model: str | None = None, **words: Unpack[PlanCheckWords]) -> CheckResult:
    """Before money or hours go: will it work together, power, heat, link, errors, deadline, users at a speed.

    `check("70B", device="H100", devices=8, runtime="vllm")`; training: `train`, `tokens` and `deadline`. `table`: your
    own rows of compatibility. Raises BadInput (TL201, TL203, TL204, TL231, TL232).
    """
    asked = CheckAsked.read(VERB.name, {"model": model, **words})
    whole = catalogue_of(catalogue_folder(asked.catalogue))
    subject = subject_of(asked.model, whole)
    on, notes = asked_device(asked.device, asked.probe, whole)
    if on is None:
        raise BadInput("a check is of a device; add --device H100, or --probe FILE of this machine", code="TL231")
    many = asked.devices or 1
    share = asked.mfu or Mfu()
    rules, rates = read_compatibility(Path(asked.table).expanduser()) if asked.table else ((), ())
    joins = whole.link(asked.link) if asked.link else whole.link_among(on, many)
    plan, tensor = _plan(subject, asked), many
    _deadline_is_of_training(plan, asked.tokens, asked.deadline)
    kept = plan.weight_format if isinstance(plan, Serving) else FROZEN.get(plan.method, "bf16")
    stack = Stack(subject.name, kept, on, asked.runtime, asked.driver)
    time: tuple[Figure, ...] = ()
    if isinstance(plan, Training):
        predicted = asked.mfu is None and plan.method != "qlora" and subject.shape is not None and is_rated(on)
        if asked.mfu is None and not is_calibrated_kind(on):
            time = _unsaid(on, asked)
        elif predicted:
            time = _predicted(subject, on, asked)
        else:
            time = _time(plan, on, many, asked, share)
    ran = asked.hours if asked.hours is not None else _hours(time)
    if isinstance(plan, Serving):
        plan = replace(plan, runtime=runtime_of(asked.runtime or "vllm"))
        plan, tensor = divided(plan, many, on)
        refuse_impossible(plan, tensor)
    memory = trained_on(plan, on, many, Ways()) if isinstance(plan, Training) else served_on(plan, on, tensor)
    answer = Check(
        plan, stack, many, rulings(stack, (*rules, *shipped_rules())), memory,
        power_figures(on, many, _supply(asked), ran), joined(plan, on, many, joins, share),
        exposure(on.name, many, ran, (*rates, *shipped_rates())), time,
        _speed(plan, on, tensor, asked) if isinstance(plan, Serving) else (),
    )  # fmt: skip
    return CheckResult(answer, notes)


def _deadline_is_of_training(plan: Serving | Training, tokens: object, deadline: object) -> None:
    """Raises BadInput (TL231) for a deadline without tokens, and for either in serving."""
    if isinstance(plan, Training) and tokens is None and deadline is not None:
        raise BadInput("a deadline is of so many tokens; add --tokens 2B", code="TL231")
    if isinstance(plan, Serving) and (tokens is not None or deadline is not None):
        raise BadInput("--tokens and --deadline are of training; add --train full, lora or qlora", code="TL231")


def _plan(subject: Subject, asked: CheckAsked) -> Serving | Training:
    if asked.train is None:
        words = {"users": asked.users, "context": asked.context, "precision": asked.precision}
        return serving_of(subject, ServingFit.read(VERB.name, words))
    for name in ("users", "precision", "answer", "fast", "slow"):
        if getattr(asked, name) is not None:
            raise BadInput(f"--{name} is no option of training; leave --train out", code="TL231")
    return training_of(subject, TrainingFit.read(VERB.name, {"train": asked.train, "context": asked.context}))[0]


def _deadlines(asked: CheckAsked) -> tuple[float, ...]:
    words = () if asked.deadline is None else asked.deadline.split(",")
    return tuple(seconds_of("deadline", word) for word in words)


def _time(plan: Training, device: Device, devices: int, asked: CheckAsked, mfu: Mfu) -> tuple[Figure, ...]:
    if asked.tokens is None:
        return ()
    hours = device_hours(plan, device, asked.tokens, mfu)
    return (hours, run_time(hours, devices), *deadlines(hours, _deadlines(asked)))


def _unsaid(device: Device, asked: CheckAsked) -> tuple[Figure, ...]:
    """No time on a processor: `plan capacity` predicts none, and shares of a peak are those of accelerators."""
    if asked.tokens is None:
        return ()
    why = Finding("plan-unknown", "warns", "device-hours", {"model": device.name, "needs": "time"})
    names = (("device-hours", "device-hours"), ("run-time", "s"))
    return tuple(absent(*each, why) for each in (*names, *[("devices-needed", "devices")] * len(_deadlines(asked))))


def _predicted(subject: Subject, device: Device, asked: CheckAsked) -> tuple[Figure, ...]:
    """The time of `plan capacity`, by the same defaults: device-hours, time on these, devices for each deadline."""
    if asked.tokens is None:
        return ()
    devices = asked.devices or 1
    words = asked.model_dump(include={"train", "devices", "tokens", "context"})
    steps, _ = steps_of(TrainingCapacityAsked.read(VERB.name, words), subject, device)
    whole = training_capacity(steps).whole
    assert whole is not None
    taken = replace(whole, name="run-time")
    ends = [None if end is None else float(end) / 3600 * devices for end in (taken.value, taken.low, taken.high)]
    hours = Figure("device-hours", ends[0], "device-hours", "{0} × {1} / 3600 s",
                   (taken, Input("devices", devices, "devices")), ends[1], ends[2], taken.level)  # fmt: skip
    needed = (devices_within(replace(steps, within_s=target)) for target in _deadlines(asked))
    return (hours, taken, *(replace(each, name="devices-needed") for each in needed if each is not None))


def _hours(time: Sequence[Figure]) -> float | None:
    found = next((each for each in time if each.name == "run-time"), None)
    return None if found is None or found.value is None else float(found.value) / 3600


def _supply(asked: CheckAsked) -> Supply:
    return Supply(asked.volts, int(asked.phases), asked.rise, asked.host_watts)


def _speed(plan: Serving, device: Device, tensor: int, asked: CheckAsked) -> tuple[Figure, ...]:
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
