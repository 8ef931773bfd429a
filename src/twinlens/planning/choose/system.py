"""One shared system or two: hours a day, use, and what one lens does to the other."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.planning.choose.candidate import Candidate, Ranking
from twinlens.planning.choose.wanted import DAY_H, Wanted
from twinlens.record.finding import Finding

AT_ONCE = 2.0
"""Two loads that share a device get half of it each (processor sharing)."""


def system_finding(wanted: Wanted, serving: Ranking, training: Ranking) -> Finding:
    """Shared by turns, shared at once, or two systems; each with its hours and its use.

    Users are served `duty_h` hours a day; training takes the hours that its share of the work makes of them. What
    does not fit beside them runs at the same time, at half speed, if memory holds both and the target is still kept.
    """
    serves = wanted.duty_h
    trains = wanted.trains_h
    own = serving.candidates[0], training.candidates[0]
    numbers = {
        "serves_h": serves, "trains_h": trains, "inference": own[0].device, "inference_devices": own[0].devices,
        "training": own[1].device, "training_devices": own[1].devices,
        "inference_use": serves / DAY_H, "training_use": trains / DAY_H,
    }  # fmt: skip
    if trains > DAY_H:
        return Finding("plan-system", "warns", "two-and-more", numbers | {"times": trains / DAY_H})
    shared = min(_shared(serving, training), key=_size, default=None)
    if shared is None:
        return Finding("plan-system", "notes", "two-no-device", numbers)
    one, other = shared
    devices = max(one.devices, other.devices)
    numbers |= {"shared": one.device, "shared_devices": devices}
    if serves + trains <= DAY_H:
        return Finding("plan-system", "notes", "shared-by-turns", numbers | {"use": (serves + trains) / DAY_H})
    slow_h = AT_ONCE * (serves + trains - DAY_H)
    tpot = one.time("tpot")
    slower = AT_ONCE * tpot.number if tpot else 0.0
    target = wanted.serving.tpot_s if wanted.serving else None
    numbers |= {"slow_h": slow_h, "slower_tpot_s": slower, "target_s": target}
    if slow_h > serves:
        return Finding("plan-system", "notes", "two-hours", numbers)
    if one.memory_share * one.used + other.memory_share * other.used > devices:
        return Finding("plan-system", "notes", "two-memory", numbers)
    if target is not None and slower > target:
        return Finding("plan-system", "notes", "two-latency", numbers)
    return Finding("plan-system", "notes", "shared-at-once", numbers | {"use": 1.0})


def _shared(serving: Ranking, training: Ranking) -> Iterator[tuple[Candidate, Candidate]]:
    """Devices that do both."""
    for each in serving.candidates:
        other = training.of(each.device)
        if other is not None:
            yield each, other


def _size(both: tuple[Candidate, Candidate]) -> tuple[int, float, float]:
    """Fewest devices first, then the least power, then the fastest."""
    one, other = both
    power = max(one.power_w or float("inf"), other.power_w or float("inf"))
    return max(one.devices, other.devices), power, -one.rate.number
