"""Ceilings as an engine measures them: of a device, and of collectives between ranks, with their slow links."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import Fact
from twinlens.record.finding import Finding


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


@dataclass(frozen=True, slots=True)
class Timing:
    """One collective at one size. `size_bytes` as nccl-tests count it: the buffer, or the whole of all ranks' shares;
    `seconds`: of each repetition, the slowest rank's."""

    kind: str
    size_bytes: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Collectives:
    """Timings of one world. `refused`: kinds that this backend does not really have, with the reason. `pairs`: seconds
    of an exchange of `pair_bytes` between two ranks alone, each way at once; empty for a world of two."""

    backend: str
    ranks: int
    on_processor: bool
    timings: tuple[Timing, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)
    pair_bytes: int = 0


SLOW, SLOW_ON_DEVICE = 2.0, 1.5
"""Times the fastest pair's least time: noise adds to some repetitions, hardly to all. A GPU times large buffers itself,
of which a link at half its speed takes twice as long, and no longer."""


def slow_links(pairs: Mapping[tuple[int, int], Sequence[float]], *, on_processor: bool) -> tuple[Finding, ...]:
    """A rank all of whose pairs are slow, then pairs that no such rank explains; nothing below three pairs."""
    if len(pairs) < 3:
        return ()
    least = {pair: min(seconds) for pair, seconds in pairs.items()}
    fastest, limit = min(least.values()), SLOW if on_processor else SLOW_ON_DEVICE
    slow = {pair: seconds / fastest for pair, seconds in least.items() if seconds > limit * fastest}
    members = {rank for pair in pairs for rank in pair}
    ranks = [rank for rank in sorted(members) if all(pair in slow for pair in pairs if rank in pair)]
    found = [
        Finding("slow-rank", "warns", str(rank), {"times": min(t for pair, t in slow.items() if rank in pair)})
        for rank in ranks
    ]
    rest = {pair: times for pair, times in slow.items() if not set(pair) & set(ranks)}
    found += [Finding("slow-link", "warns", f"{a} and {b}", {"times": times}) for (a, b), times in sorted(rest.items())]
    return tuple(found)
