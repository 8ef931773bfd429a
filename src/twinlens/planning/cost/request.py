"""The cost of one request: an hour of the machine over the requests it serves, or an API's price, and hidden costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from twinlens.planning.cost.algebra import computed, over, plus, times
from twinlens.planning.cost.machine import Machine, Priced
from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure, Input, absent, assumed

_SECONDS = Input("hour", 3600, "s", "by definition")
_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is served. `throughput`: requests/s within the SLO, all devices together, None behind an API.

    `input_tokens`, `output_tokens`: of a request, None where unknown. `output_weight`: what an output token costs, in
    input tokens. `retries`: requests made again for each that counts. `hits`: share answered without the model.
    """

    throughput: Figure | None = None
    input_tokens: Figure | None = None
    output_tokens: Figure | None = None
    output_weight: float | None = None
    retries: float | None = None
    hits: float | None = None


@dataclass(frozen=True, slots=True)
class Each:
    """Of one request that counts: both halves, and their sum, and of a million tokens."""

    hardware: Figure
    energy: Figure
    total: Figure
    million: tuple[Figure, ...] = ()
    listed: Figure | None = None
    """Before retries and hits; None where neither was said."""


def on_machine(machine: Machine, traffic: Traffic) -> Each:
    """A busy hour over the requests of an hour."""
    if traffic.throughput is None:
        raise ValueError("a machine has a throughput")
    unit = f"{machine.currency}/request"
    hourly = times("hourly", "requests/h", traffic.throughput, _SECONDS)
    bare = {"hardware": machine.hardware(), "energy": machine.energy()}
    halves = {name: _hidden(name, unit, over(name, unit, hour, hourly), traffic) for name, hour in bare.items()}
    energy = halves["energy"]
    is_paid = machine.way != "buy"
    sum_of = (halves["hardware"],) if is_paid else (halves["hardware"], energy)
    total = plus("request", unit, *sum_of, assumptions=_not_said(traffic))
    listed = plus(
        "listed", unit, *(over(name, unit, bare[name], hourly) for name in ("hardware", "energy")[: len(sum_of)])
    )
    return Each(halves["hardware"], energy, total, _million(total, traffic, machine.currency), _told(listed, traffic))


def of_api(prices: Mapping[str, Priced], traffic: Traffic) -> Each:
    """An API's price of a request, or of its tokens. `prices`: request, or Mtoken, or input-Mtoken and output-Mtoken.

    Raises KeyError where a price of tokens meets a request of unknown length.
    """
    currency = next(iter(prices.values())).currency
    unit = f"{currency}/request"
    listed = _listed(prices, traffic, unit)
    total = _hidden("request", unit, listed, traffic)
    reason = Finding("plan-unknown", "notes", "hardware", {"needs": "an-api-does-not-say"})
    noted = plus("request", unit, total, assumptions=_not_said(traffic)) if _not_said(traffic) else total
    return Each(
        absent("hardware", unit, reason), absent("energy", unit, reason), noted,
        _million(noted, traffic, currency), _told(listed, traffic),
    )  # fmt: skip


def _listed(prices: Mapping[str, Priced], traffic: Traffic, unit: str) -> Figure:
    if "request" in prices:
        return times("listed", unit, prices["request"].figure())
    parts = []
    for name, tokens in (("input", traffic.input_tokens), ("output", traffic.output_tokens)):
        price = prices.get(f"{name}-Mtoken") or prices.get("Mtoken")
        if price is None or tokens is None:
            raise KeyError(name)
        parts.append(computed(f"{name}-cost", unit, "{0} × {1} / 1,000,000", (tokens, price.figure()),
                              lambda a, b: a * b / _MILLION))  # fmt: skip
    return plus("listed", unit, *parts)


def _hidden(name: str, unit: str, cost: Figure, traffic: Traffic) -> Figure:
    """What a request that counts costs, with those made again, less those that never reach the model."""
    if cost.value is None or (traffic.retries is None and traffic.hits is None):
        return cost
    parts = (cost, Input("retries", traffic.retries or 0.0, "1"), Input("hits", traffic.hits or 0.0, "1"))
    return computed(name, unit, "{0} × (1 + {1}) × (1 − {2})", parts, lambda a, r, h: a * (1 + r) * (1 - h), falls=(2,))


def _told(listed: Figure, traffic: Traffic) -> Figure | None:
    return None if traffic.retries is None and traffic.hits is None else listed


def _not_said(traffic: Traffic) -> tuple[Finding, ...]:
    names = [name for name, said in (("retries", traffic.retries), ("cache hits", traffic.hits)) if said is None]
    return (assumed("none-counted", " and ".join(names)),) if names else ()


def per_million(request: Figure, traffic: Traffic, name: str, unit: str) -> Figure:
    """A million tokens at what a request costs, prompt and answer alike; absent where its length is not known."""
    if traffic.input_tokens is None or traffic.output_tokens is None:
        return absent(name, unit, Finding("plan-unknown", "notes", "million", {"needs": "tokens-of-a-request"}))
    tokens = plus("tokens", "tokens", traffic.input_tokens, traffic.output_tokens)
    return computed(name, unit, "1,000,000 × {0} / {1}", (request, tokens), lambda a, b: _MILLION * a / b, falls=(1,))


def _million(total: Figure, traffic: Traffic, currency: str) -> tuple[Figure, ...]:
    """A million tokens: all alike, and input and output apart where the weight of an output token is known."""
    unit, ahead, after = f"{currency}/Mtoken", traffic.input_tokens, traffic.output_tokens
    if ahead is None or after is None:
        return (per_million(total, traffic, "million", unit),)
    found = [per_million(total, traffic, "million", unit)]
    if traffic.output_weight is None:
        lacks = Finding("plan-unknown", "notes", "million-input", {"needs": "output-weight"})
        return (*found, absent("million-input", unit, lacks), absent("million-output", unit, lacks))
    weight = Input("output-weight", traffic.output_weight, "1")
    first = computed("million-input", unit, "1,000,000 × {0} / ({1} + {3} × {2})", (total, ahead, after, weight),
                     lambda c, i, o, w: _MILLION * c / (i + w * o), falls=(1, 2, 3))  # fmt: skip
    return (*found, first, times("million-output", unit, first, weight))
