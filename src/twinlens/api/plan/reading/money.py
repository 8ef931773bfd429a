"""Words of the verbs of money read into values: how it is paid, what is served, the machine and its power."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinlens.api.plan.predicted import Predicted
from twinlens.api.plan.reading.amount import (
    UNREADABLE,
    above_zero,
    count_of,
    months_of,
    one_of,
    share_of,
    throughput_of,
    tokens_of,
    watts_of,
    whole_of,
)
from twinlens.api.plan.reading.prices import UNUSABLE, one
from twinlens.errors import BadInput
from twinlens.planning.cost.algebra import over
from twinlens.planning.cost.machine import Machine, Power, Priced
from twinlens.planning.cost.request import Traffic
from twinlens.planning.cost.volume import Volume
from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.spec.device import Device

WAYS = ("rent", "reserved", "buy", "api")
Prices = Mapping[str, tuple[Priced, ...]]


def way_of(way: str | None, known: Prices, device: Device | None) -> Any:
    """How it is paid: as asked, else the one whose price is known. Raises BadInput (TL231, TL234)."""
    if way is not None:
        return one_of("way", way, WAYS)
    mine = [each for each in WAYS if each in known]
    if len(mine) > 1:
        raise BadInput(f"there are prices to {', '.join(mine)}: say which with --way {mine[0]}", code=UNREADABLE)
    if not mine and device is None:
        raise BadInput("no price was given: --rent '3 USD/h', --buy '37500 USD', --api '0.01 USD/request', or --device "
                       "NAME for the catalogue's", code=UNUSABLE)  # fmt: skip
    return mine[0] if mine else "rent"


def traffic_of(
    throughput: object,
    like: str | Path | None,
    way: str,
    options: Mapping[str, object],
    modelled: Predicted | None = None,
) -> tuple[Traffic, float | None, tuple[Finding, ...]]:
    """What is served, the measured power of all devices, and notes. Raises BadInput (TL231).

    One of the three says how fast it is: a typed rate, a run, or a prediction.
    """
    if sum(each is not None for each in (throughput, like, modelled)) > 1:
        raise BadInput("--throughput, --like and --model each say how fast it is; give one of them", code=UNREADABLE)
    ahead, after = (_tokens(name, options.get(name)) for name in ("input_tokens", "output_tokens"))
    rate: Figure | None = None
    power_w: float | None = None
    notes: tuple[Finding, ...] = ()
    if like is not None:
        from twinlens.api.plan.measured import measured

        run = measured(like)
        rate, power_w, ahead, after = run.throughput, run.power_w, ahead or run.input_tokens, after or run.output_tokens
    elif modelled is not None:
        rate, ahead, after, notes = modelled.throughput, modelled.prompt, modelled.answer, modelled.notes
    elif throughput is not None:
        rate = _rate(throughput, after)
    elif way != "api":
        raise BadInput(
            "how fast is it? Give --model 70B for a prediction, --like RUN, or --throughput '4 requests/s'",
            code=UNREADABLE,
        )
    weight = options.get("output_weight")
    return Traffic(
        rate, ahead, after, None if weight is None else above_zero("output-weight", weight, 1000),
        _share("retries", options.get("retries"), 10.0), _share("hits", options.get("hits"), 0.999),
    ), power_w, notes  # fmt: skip


def machine_of(
    way: Any,
    known: Prices,
    device: Device | None,
    power_w: float | None,
    devices: object,
    options: Mapping[str, object],
) -> Machine:
    """The machine and its power. Raises BadInput (TL231, TL234), also one bought without a price of energy."""
    many = count_of("devices", 1 if devices is None else devices)
    busy = _share("busy", options.get("busy"), 1.0)
    if busy == 0:
        raise BadInput(
            "--busy is a share above 0: a machine that never serves has no cost per request", code=UNREADABLE
        )
    power = _power(known, device, power_w, many, options)
    if way == "buy" and power is None:
        lacks = "--energy '0.10 USD/kWh'" if one(known, "energy") is None else "--power 700W, or a --device"
        raise BadInput(f"a machine of your own draws power: give {lacks}", code=UNUSABLE)
    life = options.get("life")
    return Machine(
        way, many, known[way][0], busy or 1.0, 36.0 if life is None else months_of("life", life),
        one(known, "residual"), one(known, "fixed"), power, busy is not None, life is not None,
    )  # fmt: skip


def volume_of(options: Mapping[str, object]) -> Volume | None:
    users, uses, days = (options.get(name) for name in ("users", "uses", "days"))
    if users is None and uses is None:
        return None
    many = whole_of("users", 1000 if users is None else users, 1e10)
    return Volume(
        many,
        None if uses is None else above_zero("uses", uses, 1e6),
        None if days is None else above_zero("days", days, 31),
    )


def _power(
    known: Prices, device: Device | None, power_w: float | None, devices: int, options: Mapping[str, object]
) -> Power | None:
    """Power of one device under load: as asked, as measured, or the highest that its maker names."""
    asked, price = options.get("power"), one(known, "energy")
    if price is None:
        return None
    host, pue = (1.0 if options.get(name) is None else above_zero(name, options[name], 10) for name in ("host", "pue"))
    idle = options.get("idle_power")
    idle_w = None if idle is None else watts_of("idle-power", idle)
    if asked is not None:
        return Power(watts_of("power", asked), host, pue, price, idle_w=idle_w)
    if power_w is not None:
        return Power(power_w / devices, host, pue, price, "measured", idle_w)
    if device is not None and device.tdp_w is not None:
        return Power(device.tdp_w, host, pue, price, f"{device.name}: thermal design power", idle_w)
    return None


def _rate(word: object, after: Figure | None) -> Figure:
    (low, high), unit = throughput_of("throughput", word)
    ends = (low, high) if low < high else (None, None)
    rate = Figure("throughput", (low + high) / 2, unit, low=ends[0], high=ends[1], source="asked")
    if unit == "requests/s":
        return rate
    if after is None:
        raise BadInput("--throughput in tokens/s needs --output-tokens of a request", code=UNREADABLE)
    return over("throughput", "requests/s", rate, after)


def _tokens(name: str, word: object) -> Figure | None:
    if word is None:
        return None
    plain = name.replace("_", "-")
    many = tokens_of(plain, word) if str(word).strip()[-1:] in ("k", "K") else above_zero(plain, word, 1e9)
    return Figure(plain, many, "tokens", source="asked")


def _share(name: str, word: object, most: float) -> float | None:
    return None if word is None else share_of(name, word, most)
