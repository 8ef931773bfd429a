"""The smallest fleet that keeps an SLO in the whole band of its simulations, by doubling and then halving."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.schedule.build import planned_load
from twinlens.simulation.points.basis import Basis
from twinlens.simulation.points.fleet import Fleet
from twinlens.simulation.points.sweep import Point, Size, capacities, simulate_point
from twinlens.simulation.rules import Rules
from twinlens.spec.slo import Slo
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import digits

MOST = 1000
"""Replicas of a fleet."""
TRIALS = 8
"""Fleets that a search tries at one load, about: its work is counted by so many."""
_DOUBLINGS = 6
_USD_PER_MILLION = "USD/Mtoken"


def smallest(specs: Sequence[RunSpec], basis: Basis, rules: Rules, fleet: Fleet, name: str = "") -> Size:
    """The smallest fleet like `fleet` that keeps the SLO at a load. `specs`: its repeats; `name`: of its batching.

    The first that is tried is the smallest that is not overloaded for sure. Raises BadInput (TL250) without an SLO.
    """
    slo, tried = slo_of(specs[0]), dict[int, Point]()

    def keeps(count: int) -> bool:
        if count not in tried:
            one = replace(fleet, replicas=count)
            label = f"{name} · {one.name}" if name else one.name
            tried[count] = simulate_point(specs, basis, rules, label, one)
        return keeps_surely(tried[count], slo)

    how = f"{name} · {fleet.policy}" if name else fleet.policy
    least = _least(specs[0], basis, rules, fleet)
    if least > MOST:
        return Size(specs[0], None, None, how, f"{least:,} replicas are overloaded, and at most {MOST:,} are simulated")
    below, enough = least - 1, least
    while not keeps(enough):
        if enough >= min(MOST, least * 2**_DOUBLINGS):
            return Size(specs[0], None, tried[enough], how, _why_none(tried[enough], slo))
        below, enough = enough, min(MOST, 2 * enough)
    while enough - below > 1:
        middle = (below + enough) // 2
        below, enough = (below, middle) if keeps(middle) else (middle, enough)
    return Size(specs[0], tried[enough], tried.get(below), how)


def _least(spec: RunSpec, basis: Basis, rules: Rules, fleet: Fleet) -> int:
    """The fewest replicas that may not be overloaded, by what one can serve at most."""
    rate, plan = spec.point.rate_per_s, planned_load(spec).plan
    assert plan is not None, "a fleet has a plan"
    known = capacities(spec, basis, rules, plan.input_tokens, plan.output_tokens, None)
    if rate is None or known is None or known[0].value is None:
        return 1
    return max(1, math.ceil(rate / (known[0].high or known[0].value) + 1 - 1 / fleet.slow))


def slo_of(spec: RunSpec) -> Slo:
    """The SLO that a search keeps. Raises BadInput (TL250) where there is none, or one of single tokens."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    if workload.slo is None:
        raise BadInput("--replicas search keeps an SLO, and the spec has none: --set workload.slo.ttft_s=0.5",
                       code="TL250")  # fmt: skip
    if workload.slo.itl_s is not None:
        raise BadInput("--replicas search cannot keep itl_s, a limit of single tokens: limit tpot_s instead",
                       code="TL250")  # fmt: skip
    return workload.slo


def keeps_surely(point: Point, slo: Slo) -> bool:
    """Whether enough requests are within the SLO in the whole band, and no simulation was stopped."""
    share = point.figures["slo_attainment"]
    low = share.low if share.low is not None else share.value
    return low is not None and low >= slo.quantile and all(each.stopped_s is None for each in point.repeats)


def headroom(point: Point, slo: Slo) -> tuple[str, float] | None:
    """The limit that is nearest, as the metric's id, and how many times the upper end of its band goes into it.

    None where the SLO has a quantile of which there is no figure.
    """
    found = {}
    for name in ("ttft_s", "tpot_s", "e2e_latency_s"):
        limit, figure = getattr(slo, name), point.figures.get(f"{name}_p{round(100 * slo.quantile)}")
        high = None if figure is None else figure.high or figure.value
        if limit is not None and high:
            found[f"{name}_p{round(100 * slo.quantile)}"] = limit / high
    return min(found.items(), key=lambda each: each[1]) if found else None


def _why_none(point: Point, slo: Slo) -> str:
    share, count = point.figures["slo_attainment"], point.fleet.replicas if point.fleet else 1
    low = share.low if share.low is not None else share.value
    within = "not known how many" if low is None else f"{digits(100 * low)} %"
    return f"of {count} replicas too, {within} of the requests are within it, and {100 * slo.quantile:g} % have to be"


def cost(point: Point, price_per_hour: float) -> Estimate:
    """$ per million output tokens: the price that was said, of all replicas, over the tokens that they made."""
    tokens = point.figures["output_tokens_per_s"]
    replicas = point.fleet.replicas if point.fleet is not None else 1
    method = f"{price_per_hour:g} $/h, as said, × {replicas}, over simulated output tokens"
    if not tokens.value:
        return Estimate.absent(_USD_PER_MILLION, "no token was made")

    def dollars(per_s: float | None) -> float | None:
        return price_per_hour * replicas / 3600 / per_s * 1e6 if per_s else None

    return Estimate(dollars(tokens.value), _USD_PER_MILLION, method, "simulated", dollars(tokens.high),
                    dollars(tokens.low), tokens.level, n=tokens.n, no_interval=tokens.no_interval)  # fmt: skip
