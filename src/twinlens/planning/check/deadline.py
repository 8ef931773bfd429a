"""A training deadline as a target: device-hours from FLOP at an MFU with its band, and devices for each deadline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from twinlens.planning.fit.training import Training
from twinlens.record.finding import Finding
from twinlens.spec.compatibility import FailureRate
from twinlens.spec.device import Device
from twinlens.theory.adapter import adapter_flop_per_token
from twinlens.theory.figure import Figure, Input, absent
from twinlens.theory.flop import training_flop_per_token

USUAL_MFU = (0.3, 0.4, 0.5)
USUAL_SOURCE = "assumed: public runs of dense models reach 38 to 43 % (Llama 3, arXiv 2407.21783)"


@dataclass(frozen=True, slots=True)
class Mfu:
    """Model FLOP over the dense 16-bit rate: low, taken, high."""

    low: float = USUAL_MFU[0]
    taken: float = USUAL_MFU[1]
    high: float = USUAL_MFU[2]
    source: str = USUAL_SOURCE


def device_hours(plan: Training, device: Device, tokens: float, mfu: Mfu) -> Figure:
    """Hours of one device for that many trained tokens; absent where its 16-bit rate is not known."""
    flop, peak = training_work(plan, tokens), device.rate("bf16") or device.rate("fp16")
    if peak is None:
        lacks = {"model": device.name, "needs": "rate"}
        return absent("device-hours", "device-hours", Finding("plan-unknown", "warns", "device-hours", lacks))
    work = flop.number / peak / 3600
    rate = Input("peak", peak, "flop/s", device.source)
    return Figure(
        "device-hours", work / mfu.taken, "device-hours", "{0} / ({1} × {2}) / 3600 s",
        (flop, Input("mfu", mfu.taken, "share", mfu.source), rate), low=work / mfu.high, high=work / mfu.low,
        law="device-time",
    )  # fmt: skip


def training_work(plan: Training, tokens: float) -> Figure:
    """FLOP to train on that many tokens, attention counted; 6·N of a bare size, and 4·N with frozen weights."""
    shape, many = plan.subject.shape, Input("tokens", tokens, "tokens")
    if shape is None:
        each, name = (
            (6.0 if plan.method == "full" else 4.0) * plan.subject.params,
            "6n" if plan.method == "full" else "4n",
        )
    elif plan.method == "full":
        each, name = float(training_flop_per_token(shape, plan.context)), "causal, theory/flop.py"
    else:
        each, name = float(adapter_flop_per_token(shape, plan.context, plan.rank)), "theory/adapter.py"
    law = "training-flop" if plan.method == "full" else None
    return Figure("flop", each * tokens, "FLOP", "{0} × {1}", (many, Input("flop-each", each, "FLOP", name)), law=law)


def deadlines(hours: Figure, targets_s: Sequence[float]) -> tuple[Figure, ...]:
    """Devices for each deadline in seconds, whole ones, if work divides without loss; the band is that of the MFU."""
    if hours.value is None:
        return tuple(absent("devices-needed", "devices", hours.reason) for _ in targets_s if hours.reason)
    return tuple(
        Figure(
            "devices-needed", _whole(hours.value, target), "devices", "{0} / {1}",
            (hours, Input("deadline", target, "s")), low=_whole(hours.low, target), high=_whole(hours.high, target),
        )
        for target in targets_s
    )  # fmt: skip


def _whole(hours: object, target_s: float) -> int:
    return max(1, math.ceil(float(hours) * 3600 / target_s - 1e-9))  # type: ignore[arg-type]


def run_time(hours: Figure, devices: int) -> Figure:
    """Seconds on this many devices, if work divides without loss."""
    if hours.value is None:
        return absent("run-time", "s", hours.reason) if hours.reason else hours
    low, high = (None if end is None else float(end) * 3600 / devices for end in (hours.low, hours.high))
    inputs = (hours, Input("devices", devices, "devices"))
    return Figure("run-time", float(hours.value) * 3600 / devices, "s", "{0} / {1}", inputs, low=low, high=high)


# Errors to expect in a run of some hours, from a dated count on the same device; absent without one.

LEVEL = 0.9


def exposure(device: str, devices: int, hours: float | None, rates: Sequence[FailureRate]) -> tuple[Figure, ...]:
    """Expected events of each kind that was counted on this device, and the chance of at least one.

    The band is the exact Poisson interval of the count (Garwood 1936), at a rate that does not change.
    """
    if hours is None:
        return (absent("events", "events", _unknown(device, "hours")),)
    counted = [each for each in rates if each.device == device]
    if not counted:
        return (absent("events", "events", _unknown(device, "rate")),)
    return tuple(figure for rate in counted for figure in _of(rate, devices, hours))


def _of(rate: FailureRate, devices: int, hours: float) -> tuple[Figure, Figure]:
    from twinlens.stats.estimator.rate import poisson_bounds

    exposed = devices * hours / rate.device_hours
    low, high = poisson_bounds(rate.events, LEVEL)
    events = Figure(
        f"{rate.what}s", rate.events * exposed, "events", "{0} × {1} × {2} / {3}",
        (Input("events", rate.events, "events", rate.source), Input("devices", devices, "devices"),
         Input("hours", hours, "h"), Input("device-hours", rate.device_hours, "device-hours", rate.source)),
        low=low * exposed, high=high * exposed, level=LEVEL, origin="quoted", source=f"{rate.source} ({rate.date})",
    )  # fmt: skip
    chance = Figure(
        f"{rate.what}-chance", -math.expm1(-events.number), "share", "1 − exp(−{0})", (events,),
        low=-math.expm1(-low * exposed), high=-math.expm1(-high * exposed), level=LEVEL,
    )  # fmt: skip
    return events, chance


def _unknown(device: str, needs: str) -> Finding:
    return Finding("plan-unknown", "warns", "events", {"model": device, "needs": needs})
