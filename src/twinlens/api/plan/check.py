"""The verb that checks a plan before money or hours go: from words to one value with all its arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinlens.api.plan.amount import seconds_of, trained_tokens_of
from twinlens.api.plan.as_json import as_json
from twinlens.api.plan.asked import asked_device, mfu_of, subject_of
from twinlens.api.plan.fit import serving_of, training_of
from twinlens.api.plan.number import above_zero, count_of, given_of, one_of
from twinlens.api.plan.steps import steps_of
from twinlens.errors import BadInput
from twinlens.planning.capacity.training import devices_within, training_capacity
from twinlens.planning.check.answer import Check
from twinlens.planning.check.deadline import Mfu, deadlines, device_hours, run_time
from twinlens.planning.check.exposure import exposure
from twinlens.planning.check.interconnect import joined
from twinlens.planning.check.perceived import users_at
from twinlens.planning.check.power import Supply, power_figures
from twinlens.planning.check.stack import Stack, rulings
from twinlens.planning.figure import Figure, Input, absent
from twinlens.planning.fit.runtime import runtime_of
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.serving_answer import divided, refuse_impossible
from twinlens.planning.fit.serving_answer import placed as served_on
from twinlens.planning.fit.training import FROZEN, Training
from twinlens.planning.fit.training_answer import Ways
from twinlens.planning.fit.training_answer import placed as trained_on
from twinlens.planning.prediction.device_rates import is_calibrated_kind, is_rated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.stored import spoken
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import catalogue_of
from twinlens.spec.compatibility import read_compatibility, shipped_rates, shipped_rules
from twinlens.spec.device import Device
from twinlens.system.catalogue_folder import catalogue_folder

RUNTIMES = ("vllm", "trtllm", "llama.cpp")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What was checked. `notes`: how words were read."""

    answer: Check
    notes: tuple[Finding, ...] = ()

    @property
    def passes(self) -> bool | None:
        return self.answer.passes

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), self.notes)


def check(
    model: str,
    *,
    device: str | None = None,
    devices: object = None,
    precision: str | None = None,
    runtime: str | None = None,
    driver: str | None = None,
    users: object = None,
    context: object = None,
    train: str | None = None,
    tokens: object = None,
    deadline: object = None,
    mfu: object = None,
    hours: object = None,
    link: str | None = None,
    table: str | Path | None = None,
    probe: str | Path | None = None,
    catalogue: str | Path | None = None,
    **options: object,
) -> CheckResult:
    """What must be true before money or hours go: `check("70B", device="H100", devices=8, runtime="vllm")`.

    Training: `train`, `tokens` and `deadline` ("12 h, 18 h"). Other options: volts, phases, rise, host_watts, answer,
    fast, slow. `table`: your own rows of compatibility. `probe`: this machine, as it was probed. Raises BadInput
    (TL201, TL203, TL204, TL231, TL232).
    """
    whole = catalogue_of(catalogue_folder(catalogue))
    subject = subject_of(model, whole)
    on, notes = asked_device(device, probe, whole)
    if on is None:
        raise BadInput("a check is of a device; add --device H100, or --probe FILE of this machine", code="TL231")
    many, given = count_of("devices", 1 if devices is None else devices), given_of("check", options, OPTIONS)
    share = mfu_of(mfu)
    rules, rates = read_compatibility(Path(table).expanduser()) if table else ((), ())
    joins = whole.link(link) if link else whole.link_among(on, many)
    plan, tensor = _plan(subject, train, users, context, precision, given), many
    _deadline_is_of_training(plan, tokens, deadline)
    kept = plan.weight_format if isinstance(plan, Serving) else FROZEN.get(plan.method, "bf16")
    named = one_of("runtime", runtime, RUNTIMES) if runtime else None
    stack = Stack(subject.name, kept, on, named, driver)
    time: tuple[Figure, ...] = ()
    if isinstance(plan, Training):
        predicted = mfu is None and plan.method != "qlora" and subject.shape is not None and is_rated(on)
        if mfu is None and not is_calibrated_kind(on):
            time = _unsaid(on, tokens, deadline)
        elif predicted:
            time = _predicted(train or "", subject, on, many, context, tokens, deadline)
        else:
            time = _time(plan, on, many, tokens, deadline, share)
    ran = above_zero("hours", hours, 1e7) if hours is not None else _hours(time)
    if isinstance(plan, Serving):
        plan = replace(plan, runtime=runtime_of(named or "vllm"))
        plan, tensor = divided(plan, many, on)
        refuse_impossible(plan, tensor)
    memory = trained_on(plan, on, many, Ways()) if isinstance(plan, Training) else served_on(plan, on, tensor)
    answer = Check(
        plan, stack, many, rulings(stack, (*rules, *shipped_rules())), memory,
        power_figures(on, many, _supply(given), ran), joined(plan, on, many, joins, share),
        exposure(on.name, many, ran, (*rates, *shipped_rates())), time,
        _speed(plan, on, tensor, named, given) if isinstance(plan, Serving) else (),
    )  # fmt: skip
    return CheckResult(answer, notes)


def _deadline_is_of_training(plan: Serving | Training, tokens: object, deadline: object) -> None:
    """Raises BadInput (TL231) for a deadline without tokens, and for either in serving."""
    if isinstance(plan, Training) and tokens is None and deadline is not None:
        raise BadInput("a deadline is of so many tokens; add --tokens 2B", code="TL231")
    if isinstance(plan, Serving) and (tokens is not None or deadline is not None):
        raise BadInput("--tokens and --deadline are of training; add --train full, lora or qlora", code="TL231")


OPTIONS = ("volts", "phases", "rise", "host_watts", "answer", "fast", "slow")


def _plan(
    subject: Any, train: str | None, users: object, context: object, precision: str | None, given: Mapping[str, object]
) -> Serving | Training:
    if train is None:
        return serving_of(subject, users, context, precision, None, {})
    for name, value in (("users", users), ("precision", precision), *((each, given.get(each)) for each in _OF_USERS)):
        if value is not None:
            raise BadInput(f"--{name} is no option of training; leave --train out", code="TL231")
    return training_of(subject, train, context, {})[0]


_OF_USERS = ("answer", "fast", "slow")


def _time(
    plan: Training, device: Device, devices: int, tokens: object, deadline: object, mfu: Mfu
) -> tuple[Figure, ...]:
    if tokens is None:
        return ()
    hours = device_hours(plan, device, trained_tokens_of("tokens", tokens), mfu)
    targets = () if deadline is None else tuple(seconds_of("deadline", word) for word in str(deadline).split(","))
    return (hours, run_time(hours, devices), *deadlines(hours, targets))


def _unsaid(device: Device, tokens: object, deadline: object) -> tuple[Figure, ...]:
    """No time on a processor: `plan capacity` predicts none, and shares of a peak are those of accelerators."""
    if tokens is None:
        return ()
    trained_tokens_of("tokens", tokens)
    why = Finding("plan-unknown", "warns", "device-hours", {"model": device.name, "needs": "time"})
    names = (("device-hours", "device-hours"), ("run-time", "s"))
    wanted = [seconds_of("deadline", word) for word in str(deadline).split(",")] if deadline is not None else []
    return tuple(absent(*each, why) for each in (*names, *[("devices-needed", "devices")] * len(wanted)))


def _predicted(
    train: str, subject: Subject, device: Device, devices: int, context: object, tokens: object, deadline: object
) -> tuple[Figure, ...]:
    """The time of `plan capacity`, by the same defaults: device-hours, time on these, devices for each deadline."""
    if tokens is None:
        return ()
    given = {"tokens": tokens} | ({} if context is None else {"context": context})
    steps, _ = steps_of(train, subject, device, devices, None, None, None, given)
    whole = training_capacity(steps).whole
    assert whole is not None
    taken = replace(whole, name="run-time")
    ends = [None if end is None else float(end) / 3600 * devices for end in (taken.value, taken.low, taken.high)]
    hours = Figure("device-hours", ends[0], "device-hours", "{0} × {1} / 3600 s",
                   (taken, Input("devices", devices, "devices")), ends[1], ends[2], taken.level)  # fmt: skip
    targets = () if deadline is None else tuple(seconds_of("deadline", word) for word in str(deadline).split(","))
    needed = (devices_within(replace(steps, within_s=target)) for target in targets)
    return (hours, taken, *(replace(each, name="devices-needed") for each in needed if each is not None))


def _hours(time: Sequence[Figure]) -> float | None:
    found = next((each for each in time if each.name == "run-time"), None)
    return None if found is None or found.value is None else float(found.value) / 3600


def _supply(given: Mapping[str, object]) -> Supply:
    usual = Supply()
    phases = int(one_of("phases", given.get("phases", usual.phases), ("1", "3")))
    host = given.get("host_watts")
    return Supply(
        above_zero("volts", given.get("volts", usual.volts), 1e5), phases,
        above_zero("rise", given.get("rise", usual.rise_k), 100.0),
        None if host is None else above_zero("host-watts", host, 1e8),
    )  # fmt: skip


def _speed(
    plan: Serving, device: Device, tensor: int, runtime: str | None, given: Mapping[str, object]
) -> tuple[Figure, ...]:
    """Users at the two paces. A context of T tokens is a prompt of T less the answer."""
    fast = above_zero("fast", given.get("fast", 30), 1e5)
    slow = above_zero("slow", given.get("slow", 10), 1e5)
    if slow >= fast:
        raise BadInput(f"--slow {slow:g} is to be below --fast {fast:g}, in tokens/s", code="TL231")
    answer = count_of("answer", given.get("answer", min(256, max(1, plan.context // 2))))
    if answer >= plan.context:
        raise BadInput(f"--answer {answer} leaves nothing of a context of {plan.context} for a prompt", code="TL231")
    if plan.subject.shape is None:
        return ()
    kept = spoken(plan.weight_format)
    question = ServingQuestion(
        plan.subject.name, plan.subject.shape, device, kept, plan.context - answer, answer, users=1.0, tensor=tensor,
        data=plan.groups, engine=runtime or "vllm", subject=plan.subject, kv_bytes=plan.kv_element_bytes,
    )  # fmt: skip
    return tuple(users_at(question, speed, f"users-{name}") for name, speed in (("fast", fast), ("slow", slow)))
