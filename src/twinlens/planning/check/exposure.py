"""Errors to expect in a run of some hours, from a dated count on the same device; absent without one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from twinlens.planning.figure import Figure, Input, absent
from twinlens.record.finding import Finding
from twinlens.spec.compatibility import FailureRate

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
    from scipy.special import gammaincinv

    exposed = devices * hours / rate.device_hours
    tail = (1 - LEVEL) / 2
    low = float(gammaincinv(rate.events, tail)) if rate.events else 0.0
    high = float(gammaincinv(rate.events + 1, 1 - tail))
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
