"""Rows of a simulation on its fleets: the smallest that keeps the SLO, who routes, what goes wrong, and the cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.record.estimate import Estimate
from twinlens.reporting.document.block import Block, row
from twinlens.simulation.points.fleet import Fleet
from twinlens.simulation.points.smallest import cost, headroom, slo_of
from twinlens.simulation.points.sweep import Point, Size, Sweep
from twinlens.simulation.routing import BLIND
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import BYTES_PER_S, SECONDS, digits, show


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
    yield row("pools", list(_pools(found.points)), apart=True)
    price = found.price_per_hour
    if price is not None:
        enough = [each.enough for each in found.sizes if each.enough is not None] if found.sizes else found.points
        told = [f"{_name(point)}: {_dollars(cost(point, price))}" for point in enough]
        yield row("cost", [*told, f"at {price:g} $ a replica-hour, as you said, whether busy or not"], apart=True)
    yield row("energy", list(_energy(found)), apart=True)


def _energy(found: Sweep) -> Iterator[str]:
    """Of each fleet that is enough, or of each point where nobody searched; why there is none is said of fleets."""
    enough = [each.enough for each in found.sizes if each.enough is not None] if found.sizes else found.points
    known = [each for each in enough if "energy_per_output_token_j" in each.figures]
    if not known:
        if enough and enough[0].fleet is not None:
            yield found.basis.powers.absent
        return
    for point in known:
        token, power = (point.figures[name] for name in ("energy_per_output_token_j", "mean_power_w"))
        yield f"{_name(point)}: {_banded(token)} an output token, {_banded(power)} of {_engines(point)}"
    origin = found.basis.powers.power.origin if found.basis.powers.power is not None else ""
    yield f"power as {'fitted to the counters of those runs' if origin == 'fitted' else 'your table says'}"


def _engines(point: Point) -> str:
    return "the engine" if point.fleet is None else f"all {point.fleet.replicas} replicas"


def _banded(figure: Estimate) -> str:
    if figure.value is None:
        return f"not known ({figure.reason})"
    band = "" if figure.low is None or figure.high is None else (
        f" ({show(figure.low, figure.unit)} to {show(figure.high, figure.unit)})"
    )  # fmt: skip
    return f"{show(figure.value, figure.unit)}{band}"


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
        if any(each.policy not in BLIND and not each.signal_age_s for each in fleets):
            yield "the router sees the queues as they are; a real one sees older ones (--signal-age 100ms)"
    yield from _wrong(fleets[0])


def _pools(points: Sequence[Point]) -> Iterator[str]:
    """ "2+4 · 8/s: prefill 31 % busy, decode 62 %; KV cache 4.1 ms on its way, 0.3 ms of it waiting for the link"."""
    links = {each.fleet.link_bytes_per_s for each in points if each.fleet is not None and each.fleet.prefill}
    for point in points:
        if point.fleet is None or not point.fleet.prefill:
            continue
        prefill, decode, moved, waited, queued = (
            show(point.figures[name].value, point.figures[name].unit)
            for name in ("prefill_busy_share", "decode_busy_share", "transfer_s", "transfer_wait_s", "decode_queue_s")
        )
        yield (f"{_name(point)}: prefill {prefill} busy, decode {decode}; KV cache {moved} on its way, {waited} of it "
               f"waiting for the link, then {queued} until a decode step")  # fmt: skip
    for link in links:
        yield f"one link of {show(link, BYTES_PER_S)}, shared evenly; prefill goes on while decode engines are full"


def _wrong(fleet: Fleet) -> Iterator[str]:
    if fleet.dies_s is not None:
        back = f" and is back, with an empty cache, {show(fleet.down_s, SECONDS)} later" if fleet.down_s else ""
        yield f"one replica dies at {show(fleet.dies_s, SECONDS)}{back}; its requests begin anew elsewhere"
        yield "not modelled: tokens that the dying replica had streamed; its clients wait, and see the new answer alone"
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
