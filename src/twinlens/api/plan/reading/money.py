"""The question of `plan cost` and `plan roi`, and what is made of it: how it is paid, what is served, on what machine.

An amount of money says what it is per: "3 USD/h".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from twinlens.api.plan.reading.amount import UNREADABLE, above_zero, share_of, throughput_of, tokens_of, up_to
from twinlens.api.plan.reading.options import (
    FILE,
    RUN,
    SHARE,
    WATTS,
    Catalogue,
    Device,
    Devices,
    Engine,
    Model,
    Precision,
    Tensor,
    Tpot,
    Ttft,
    one,
)
from twinlens.api.plan.reading.prices import MONEY, UNUSABLE, Typed, price_of
from twinlens.api.question import Kind, Question, option
from twinlens.errors import BadInput
from twinlens.planning.cost.algebra import over
from twinlens.planning.cost.machine import Machine, Power, Priced
from twinlens.planning.cost.request import Traffic
from twinlens.record.finding import Finding
from twinlens.spec.device import Device as Known
from twinlens.theory.figure import Figure

if TYPE_CHECKING:
    from twinlens.api.plan.predicted import Predicted

PAID = ("buy", "rent", "reserved", "api", "energy", "fixed", "residual")
"""Fields that are prices."""
WAYS = ("rent", "reserved", "buy", "api")
Prices = Mapping[str, tuple[Priced, ...]]


def way_of(way: str | None, known: Prices, device: Known | None) -> Any:
    """How it is paid: as asked, else the one whose price is known. Raises BadInput (TL234)."""
    if way is not None:
        return way
    mine = [each for each in WAYS if each in known]
    if len(mine) > 1:
        raise BadInput(f"there are prices to {', '.join(mine)}: say which with --way {mine[0]}", code=UNREADABLE)
    if not mine and device is None:
        raise BadInput("no price was given: --rent '3 USD/h', --buy '37500 USD', --api '0.01 USD/request', or --device "
                       "NAME for the catalogue's", code=UNUSABLE)  # fmt: skip
    return mine[0] if mine else "rent"


def _rate(name: str, word: object) -> Figure:
    (low, high), unit = throughput_of(name, word)
    ends = (low, high) if low < high else (None, None)
    return Figure(name, (low + high) / 2, unit, low=ends[0], high=ends[1], source="asked")


def _tokens(name: str, word: object) -> Figure:
    many = tokens_of(name, word) if str(word).strip()[-1:] in ("k", "K") else above_zero(name, word, 1e9)
    return Figure(name, many, "tokens", source="asked")


def share_up_to(most: float) -> Kind:
    """A share that may be up to `most`."""
    return Kind("SHARE", lambda name, word: share_of(name, word, most))


_LENGTH, _TIMES = Kind("COUNT", _tokens), Kind("TIMES", up_to(10))


class Paid(Question):
    model: Model | None = None
    device: Device | None = None
    devices: Devices | None = None
    precision: Precision | None = None
    tensor: Tensor | None = None
    engine: Engine | None = None
    ttft: Ttft | None = None
    tpot: Tpot | None = None
    of: Annotated[str, option("What keeps a target: p99 or mean.", one("WHAT", ("mean", "p99")))] | None = None
    throughput: (
        Annotated[Figure, option("Within the SLO, all devices: '4 requests/s'.", Kind("RATE", _rate))] | None
    ) = None
    like: Annotated[Path, option("A measured run: its goodput.", RUN)] | None = None
    input_tokens: Annotated[Figure, option("Of a request.", _LENGTH, "--input-tokens", "--prompt")] | None = None
    output_tokens: Annotated[Figure, option("Of a request.", _LENGTH, "--output-tokens", "--answer")] | None = None
    rent: Annotated[Typed, option("Of an hour of one device: '3 USD/h'.", MONEY)] | None = None
    reserved: Annotated[Typed, option("With a commitment: '2 USD/h'.", MONEY)] | None = None
    buy: Annotated[Typed, option("One device with its host: '37500 USD'.", MONEY)] | None = None
    api: (
        Annotated[Typed, option("'0.01 USD/request', '3 USD/M input tokens + 15 USD/M output tokens'.", MONEY)] | None
    ) = None
    prices: Annotated[Path, option("TOML: [rent] price, date, source; [buy] … (explain cost).", FILE)] | None = None
    residual: Annotated[Typed, option("What is got back at the end.", MONEY)] | None = None
    fixed: Annotated[Typed, option("Space, people: '250 USD/month'.", MONEY)] | None = None
    energy: Annotated[Typed, option("'0.12 USD/kWh'.", MONEY)] | None = None
    power: Annotated[float, option("Of one device under load: 700W.", WATTS)] | None = None
    idle_power: Annotated[float, option("Of one device that waits: 75W.", WATTS)] | None = None
    host: Annotated[float, option("Power with the host, over the device's: 1.5.", _TIMES)] | None = None
    pue: Annotated[float, option("Power of the building over that: 1.3.", _TIMES)] | None = None
    busy: Annotated[float, option("Of the hours, those that serve: 40%.", SHARE)] | None = None
    catalogue: Catalogue | None = None


def traffic_of(asked: Paid, way: str, modelled: Predicted | None) -> tuple[Traffic, float | None, tuple[Finding, ...]]:
    """What is served, the measured power of all devices, and notes. Raises BadInput (TL231).

    One of the three says how fast it is: a typed rate, a run, or a prediction.
    """
    if sum(each is not None for each in (asked.throughput, asked.like, modelled)) > 1:
        raise BadInput("--throughput, --like and --model each say how fast it is; give one of them", code=UNREADABLE)
    rate, ahead, after = asked.throughput, asked.input_tokens, asked.output_tokens
    if asked.like is not None:
        from twinlens.api.plan.like import measured

        run = measured(asked.like)
        return Traffic(run.throughput, ahead or run.input_tokens, after or run.output_tokens), run.power_w, ()
    if modelled is not None:
        return Traffic(modelled.throughput, modelled.prompt, modelled.answer), None, modelled.notes
    if rate is not None and rate.unit != "requests/s":
        if after is None:
            raise BadInput("--throughput in tokens/s needs --output-tokens of a request", code=UNREADABLE)
        rate = over("throughput", "requests/s", rate, after)
    if rate is None and way != "api":
        raise BadInput(
            "how fast is it? Give --model 70B for a prediction, --like RUN, or --throughput '4 requests/s'",
            code=UNREADABLE,
        )
    return Traffic(rate, ahead, after), None, ()


def machine_of(
    asked: Paid, way: Any, known: Prices, device: Known | None, devices: int | None,
    power_w: float | None = None,
) -> Machine:  # fmt: skip
    """The machine and its power, all of its hours used. Raises BadInput (TL234) for one bought without energy."""
    power = _power(asked, known, device, power_w, devices or 1)
    if way == "buy" and power is None:
        lacks = "--energy '0.10 USD/kWh'" if price_of(known, "energy") is None else "--power 700W, or a --device"
        raise BadInput(f"a machine of your own draws power: give {lacks}", code=UNUSABLE)
    return Machine(
        way, devices or 1, known[way][0], residual=price_of(known, "residual"), fixed=price_of(known, "fixed"),
        power=power, is_busy_said=False, is_life_said=False,
    )  # fmt: skip


def _power(asked: Paid, known: Prices, device: Known | None, power_w: float | None, devices: int) -> Power | None:
    """Power of one device under load: as asked, as measured, or the highest that its maker names."""
    price, host, pue = price_of(known, "energy"), asked.host or 1.0, asked.pue or 1.0
    if price is None:
        return None
    if asked.power is not None:
        return Power(asked.power, host, pue, price, idle_w=asked.idle_power)
    if power_w is not None:
        return Power(power_w / devices, host, pue, price, "measured", asked.idle_power)
    if device is not None and device.tdp_w is not None:
        return Power(device.tdp_w, host, pue, price, f"{device.name}: thermal design power", asked.idle_power)
    return None
