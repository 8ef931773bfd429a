"""Rows of a simulation on its fleets: the smallest that keeps the SLO, who routes, what goes wrong, and the cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.record.estimate import Estimate
from twinlens.reporting.document.block import Block, row
from twinlens.simulation.points.fleet import Fleet
from twinlens.simulation.points.smallest import cost, headroom, slo_of
from twinlens.simulation.points.sweep import Point, Size, Sweep
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import SECONDS, digits, show


def smallest_words(found: Sweep) -> str:
    """ "The fewest replicas that keep the SLO: 2 at 4/s, 5 at 16/s."; "" where nobody searched."""
    if not found.sizes:
        return ""
    several = len({each.name for each in found.sizes}) > 1
    told = [f"{each.replicas or 'none'} at {load_name(each)}{f' ({each.name})' if several else ''}"
            for each in found.sizes]  # fmt: skip
    return f"The fewest replicas that keep the SLO in the whole band: {', '.join(told)}."


def load_name(size: Size) -> str:
    """ "4/s"."""
    rate = size.spec.point.rate_per_s
    return f"{rate:g}/s" if rate is not None else "the load as recorded"


def fleet_blocks(found: Sweep) -> Iterator[Block]:
    """What stands behind the answer of a search; routing, signals and failures; and what tokens cost."""
    yield row("head-room", [each for size in found.sizes if (each := _room(size))], apart=True)
    yield row("✗", [f"no fleet at {load_name(each)}: {each.reason}" for each in found.sizes if each.reason], "doubt",
              apart=True)  # fmt: skip
    yield row("fleet", list(_fleet(found.points)), apart=True)
    price = found.price_per_hour
    if price is not None:
        enough = [each.enough for each in found.sizes if each.enough is not None] if found.sizes else found.points
        told = [f"{_name(point)}: {_dollars(cost(point, price))}" for point in enough]
        yield row("cost", [*told, f"at {price:g} $ a replica-hour, as you said, whether busy or not"], apart=True)


def _room(size: Size) -> str:
    """ "4/s: TTFT p99 at most 0.21 s, 2.4 × within its limit; 38 % of what 2 replicas serve at most; 1 does not"."""
    point = size.enough
    if point is None:
        return ""
    told = []
    if (room := headroom(point, slo_of(size.spec))) is not None:
        name, times = room
        high = point.figures[name].high or point.figures[name].value
        told.append(f"{METRICS[name].label} at most {show(high, SECONDS)}, and {digits(times)} × that is allowed")
    rate, most = size.spec.point.rate_per_s, point.capacity
    if rate is not None and most is not None and most.value is not None:
        told.append(f"{rate / (most.low or most.value):.0%} of what it serves at most")
    fewer = (size.replicas or 1) - 1
    if fewer:
        told.append(f"{fewer} {'is' if fewer == 1 else 'are'} {'overloaded' if size.fewer is None else 'not enough'}")
    return f"{load_name(size)}: {'; '.join(told)}"


def _fleet(points: Sequence[Point]) -> Iterator[str]:
    fleets = [each.fleet for each in points if each.fleet is not None]
    if not fleets:
        return
    routings = dict.fromkeys(each.policy for each in fleets if each.replicas > 1)
    if routings:
        yield f"routing {', '.join(routings)}"
        aged = dict.fromkeys(each.signal_age_s for each in fleets if each.signal_age_s)
        yield from (f"the router looks at the queues every {show(age_s, SECONDS)}" for age_s in aged)
        if any(each.policy not in ("random", "round-robin") and not each.signal_age_s for each in fleets):
            yield "the router sees the queues as they are; a real one sees older ones (--signal-age 100ms)"
    yield from _wrong(fleets[0])


def _wrong(fleet: Fleet) -> Iterator[str]:
    if fleet.dies_s is not None:
        back = f" and is back, with an empty cache, {show(fleet.down_s, SECONDS)} later" if fleet.down_s else ""
        yield f"one replica dies at {show(fleet.dies_s, SECONDS)}{back}; its requests begin anew elsewhere"
    if fleet.slow != 1:
        yield f"one replica takes {fleet.slow:g} × as long"


def _name(point: Point) -> str:
    rate = point.spec.point.rate_per_s
    return f"{point.policy} · {rate:g}/s" if rate is not None else point.policy


def _dollars(figure: Estimate) -> str:
    if figure.value is None:
        return f"not known: {figure.reason}"
    band = "" if figure.low is None or figure.high is None else f" ({digits(figure.low)}–{digits(figure.high)})"
    return f"{digits(figure.value)} ${band} per million output tokens"
