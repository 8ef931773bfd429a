"""A measured ceiling, and how the seconds of its repeats become an estimate."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import Fact


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One of `all_ceilings`: what (`kind`), which format and layout ("" where none), how many threads."""

    kind: str
    format: str
    layout: str
    threads: int
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class DeviceProbe:
    """A device as one engine sees it. `kind`: "cpu" or "cuda"; `facts`: of the device, `framework`: of the engine.

    `ceilings` measures, about ten seconds long; `deciding`, in one second, the two that a step of serving is held
    against, for a format and a number of threads; `note`: what a reader must see of the choice, if anything.
    """

    kind: str
    facts: Mapping[str, Fact]
    framework: Mapping[str, Fact]
    ceilings: Callable[[], tuple[Ceiling, ...]]
    deciding: Callable[[str, int | None], Mapping[str, Estimate]]
    note: str | None = None


def rate(amount: float, seconds: Sequence[float], unit: str, method: str) -> Estimate:
    """Amount per second as an estimate: median, slowest and best of the repeats."""
    rates = sorted(amount / s for s in seconds)
    level = 1.0 - 2.0 ** (1 - len(rates)) if len(rates) > 1 else None
    return Estimate(statistics.median(rates), unit, method, "measured", rates[0], rates[-1], level, len(rates))
