"""The verb that says what serving costs: from words, a run and prices to an answer with its arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.plan.amount import grams_of
from twinlens.api.plan.as_json import as_json
from twinlens.api.plan.asked import device_of
from twinlens.api.plan.asked_cost import Prices, machine_of, traffic_of, volume_of, way_of
from twinlens.api.plan.number import UNREADABLE, above_zero, given_of, whole_of
from twinlens.api.plan.predicted import OF_PREDICTION, predicted
from twinlens.api.plan.prices import UNUSABLE, one, one_currency, prices_of, quoted
from twinlens.errors import BadInput
from twinlens.planning.cost.answer import Cost
from twinlens.planning.cost.carbon import carbon_of
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.request import Traffic, of_api, on_machine
from twinlens.planning.cost.training import Training
from twinlens.planning.cost.volume import month_of
from twinlens.planning.figure import Figure, Input
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.spec.device import Device
from twinlens.system.catalogue_folder import catalogue_folder

OPTIONS = (
    "power", "idle_power", "host", "pue", "life", "busy", "input_tokens", "output_tokens", "output_weight", "retries",
    "hits", "users", "uses", "days", "training_hours", "requests", "carbon", "carbon_source", *OF_PREDICTION,
)  # fmt: skip
MONEY = ("buy", "rent", "reserved", "api", "energy", "fixed", "residual", "training", "revenue")


@dataclass(frozen=True, slots=True)
class CostResult:
    """An answer: what an hour, a request, a million tokens and a month cost, and why. `notes`: how words were read."""

    answer: Cost
    notes: tuple[Finding, ...] = ()

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), self.notes)


def cost(
    throughput: object = None,
    *,
    like: str | Path | None = None,
    way: str | None = None,
    device: str | None = None,
    devices: object = None,
    prices: str | Path | None = None,
    catalogue: str | Path | None = None,
    **options: object,
) -> CostResult:
    """What it costs: `cost(model="70B", device="B200", devices=2, users=1000)`, `cost("4 requests/s", rent="3 USD/h")`.

    With a model its predicted rate within `ttft` and `tpot` is taken, with its band; also precision, tensor, engine.
    Options of money: buy, rent, reserved, api, energy, fixed, residual, training, revenue. Of the machine: power, host,
    pue, life, busy. Of traffic: input_tokens, output_tokens, output_weight, retries, hits, users, uses, days. Of
    training: training_hours, requests. Of carbon: carbon, carbon_source. Raises BadInput for values that cannot be
    (TL231), and for prices that are missing, undated, mixed or per something else (TL234).
    """
    options = given_of("cost", options, (*MONEY, *OPTIONS))
    whole = catalogue_of(catalogue_folder(catalogue))
    known = dict(prices_of({name: options.get(name) for name in MONEY}, prices))
    named, read = device_of(device, whole) if device else (None, ())
    how = way_of(way, known, named)
    if how != "api" and how not in known:
        if named is None:
            raise BadInput(
                f"no price to {how}: give --{how}, or a --device that the catalogue has a price of", code=UNUSABLE
            )
        known[how] = (quoted(how, named.name, whole),)
        one_currency(each for several in known.values() for each in several)
    modelled = predicted(device, devices, options, catalogue)
    traffic, power_w, notes = traffic_of(throughput, like, how, options, modelled)
    many = devices if modelled is None else modelled.devices
    machine = None if how == "api" else machine_of(how, known, named, power_w, many, options)
    each = _each(machine, traffic, known)
    volume = volume_of(options)
    month = None if volume is None else month_of(each, volume, traffic, machine, one(known, "revenue"))
    trained = _training(known, options, whole, named)
    carbon = _carbon(options, machine, traffic, month.requests if month else None)
    told = (*notes, *read)
    answer = Cost(machine, traffic, each, month, trained.figures(each.total) if trained else (), carbon)
    return CostResult(answer, told)


def _each(machine: Machine | None, traffic: Traffic, known: Prices) -> Any:
    if machine is not None:
        return on_machine(machine, traffic)
    if "api" not in known:
        raise BadInput(
            "no price of an API: give --api '0.01 USD/request' or '3 USD/M input tokens + 15 USD/M output tokens'",
            code=UNUSABLE,
        )
    try:
        return of_api({each.money.per: each for each in known["api"]}, traffic)
    except KeyError:
        raise BadInput(
            "an API that is paid by the token needs --input-tokens and --output-tokens of a request", code=UNREADABLE
        ) from None


def _training(known: Prices, options: Mapping[str, object], whole: Catalogue, device: Device | None) -> Training | None:
    money, hours, requests = one(known, "training"), options.get("training_hours"), options.get("requests")
    count = None if requests is None else whole_of("requests", requests)
    if money is None and hours is None:
        if requests is not None:
            raise BadInput(
                "--requests is what a training run is spread over: give --training or --training-hours", code=UNREADABLE
            )
        return None
    if money is not None:
        return Training(money, count)
    price = one(known, "rent") or one(known, "reserved") or (quoted("rent", device.name, whole) if device else None)
    if price is None:
        raise BadInput("device-hours of training need a price of an hour: give --rent, or a --device", code=UNUSABLE)
    one_currency([price, *(each for several in known.values() for each in several)])
    return Training(None, count, above_zero("training-hours", hours, 1e12), price.figure())


def _carbon(
    options: Mapping[str, object], machine: Machine | None, traffic: Traffic, monthly: Figure | None
) -> tuple[Figure, ...]:
    carbon, source = options.get("carbon"), options.get("carbon_source")
    if carbon is None:
        return ()
    if not source:
        raise BadInput("--carbon needs --carbon-source: who says so, and for when", code=UNREADABLE)
    return carbon_of(
        machine, traffic, monthly, Input("intensity", grams_of("carbon", carbon), "g/kWh", str(source)[:200])
    )
