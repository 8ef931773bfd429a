"""Serving by day and training in what is left: on the same devices or on others, and where the answer flips.

The two lenses stay apart: requests served and steps trained are never added. Slowdowns of sharing are inputs, measured
on the device that is shared, each alone and together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.work import Floats

Way = Literal["apart", "by-hour", "together"]
"""`apart`: devices of their own. `by-hour`: a device serves or trains for a whole period. `together`: every device
serves, and trains beside it with slowdowns, or alone where nothing has to be served."""
_MOST_DEVICES = 1_000_000


@dataclass(frozen=True, slots=True)
class Device:
    """What one device does alone: `served_per_s` requests within their SLO, or `steps_per_s`.

    `serving_slowdown`, `training_slowdown`: how much slower each is while the other runs beside it, 1 for not at all.
    `switch_s`: from serving to training or back, in which it does neither.
    """

    served_per_s: float
    steps_per_s: float
    serving_slowdown: float = 1.0
    training_slowdown: float = 1.0
    switch_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Day:
    """`rate_per_s` [periods]: requests that arrive, in equal periods of `period_s`; the last is followed by the first.
    `steps`: those to be trained in a day."""

    rate_per_s: Floats
    period_s: float
    steps: float


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A day of so many devices. `served`: requests; `served_share`: of those that came; `steps`: trained. `serving`
    [periods]: devices that serve. `switches`: from serving to training or back."""

    devices: int
    served: float
    served_share: float
    steps: float
    serving: Floats
    switches: int = 0


def day_of(way: Way, day: Day, device: Device, devices: int) -> Outcome:
    """What a day comes to. Of devices that are apart, those that serving needs at its peak serve all day."""
    _check(day, device)
    needed = np.ceil(day.rate_per_s / device.served_per_s - 1e-12)
    if way == "together":
        rate = device.served_per_s / device.serving_slowdown
        busy = day.rate_per_s > 0
        steps = devices * device.steps_per_s * np.where(busy, 1 / device.training_slowdown, 1.0)
        return _outcome(
            day, devices, devices * np.where(busy, rate, device.served_per_s), steps, devices * busy.astype(float), 0
        )
    serving = np.minimum(np.full_like(needed, needed.max()) if way == "apart" else needed, devices)
    more = serving - np.roll(serving, 1)
    moved = np.abs(more)
    lost_s = np.minimum(device.switch_s, day.period_s)
    # A device that is to serve is switched before its period, one that is to train in it: training pays for both.
    paid = np.maximum(-more, 0.0) + np.roll(np.maximum(more, 0.0), -1)
    steps = device.steps_per_s * ((devices - serving) - paid * lost_s / day.period_s)
    return _outcome(day, devices, serving * device.served_per_s, np.maximum(steps, 0.0), serving, int(moved.sum()))


def _outcome(day: Day, devices: int, capacity: Floats, steps_per_s: Floats, serving: Floats, switches: int) -> Outcome:
    served, came = np.minimum(day.rate_per_s, capacity).sum(), day.rate_per_s.sum()
    return Outcome(
        devices, float(served * day.period_s), float(served / came) if came else 1.0,
        float(steps_per_s.sum() * day.period_s), np.asarray(serving, np.float64), switches,
    )  # fmt: skip


def is_enough(day: Day, outcome: Outcome) -> bool:
    """All that came was served, and all steps were trained."""
    return outcome.served_share >= 1 - 1e-9 and outcome.steps >= day.steps * (1 - 1e-9)


def fewest(way: Way, day: Day, device: Device) -> Outcome:
    """The day of the fewest devices that are enough. Raises BadInput where a million are not."""
    most = _first(lambda many: is_enough(day, day_of(way, day, device, many)), _MOST_DEVICES)
    if most is None:
        raise BadInput(f"even {_MOST_DEVICES:,} devices are not enough for this day; ask for fewer requests or steps")
    return day_of(way, day, device, most)


@dataclass(frozen=True, slots=True)
class Turn:
    """`saves`: a way needs fewer devices than both kinds of work apart. `below`, `above`: the nearest factors on the
    day's rates, to each side of 1, at which that changes; None where it does not."""

    saves: bool
    below: float | None
    above: float | None


def turn_of(way: Way, day: Day, device: Device, most: float = 1000.0) -> Turn:
    """Where the answer flips, around the rates that were asked and up to a factor of `most` to each side."""

    def saves(factor: float) -> bool:
        scaled = replace(day, rate_per_s=day.rate_per_s * factor)
        return fewest(way, scaled, device).devices < fewest("apart", scaled, device).devices

    now = saves(1.0)
    steps = np.geomspace(1.0, most, 61)[1:]
    return Turn(now, _changes(saves, now, 1 / steps), _changes(saves, now, steps))


def _changes(saves: Callable[[float], bool], now: bool, tried: Floats) -> float | None:
    """The first of some factors at which the answer is another, to a thousandth."""
    near = 1.0
    for far in tried.tolist():
        if saves(far) != now:
            while max(near, far) / min(near, far) > 1.001:
                middle = math.sqrt(near * far)
                near, far = (middle, far) if saves(middle) == now else (near, middle)
            return float(far)
        near = far
    return None


def _first(holds: Callable[[int], bool], most: int) -> int | None:
    """The least whole number from 1 on for which it holds, of what holds for all above."""
    high = 1
    while not holds(high):
        high *= 2
        if high > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _check(day: Day, device: Device) -> None:
    rates = np.asarray(day.rate_per_s)
    if not len(rates) or not np.isfinite(rates).all() or rates.min() < 0 or not 0 < day.period_s < np.inf:
        raise BadInput("a day has periods above 0 s, each with a rate of requests that is finite and not negative")
    if not 0 <= day.steps < np.inf or not 0 <= device.switch_s < np.inf:
        raise BadInput("steps of a day and seconds of a switch are finite and not negative")
    if min(device.served_per_s, device.steps_per_s) <= 0:
        raise BadInput("a device serves more than 0 requests/s and trains more than 0 steps/s, each alone")
    if min(device.serving_slowdown, device.training_slowdown) < 1:
        raise BadInput("a slowdown of sharing is 1 or more")
