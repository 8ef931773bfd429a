"""The verb that says what serving costs: from words, a run and prices to an answer with its arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from twinlens.api.documented import Documented, as_json
from twinlens.api.plan.predicted import predicted
from twinlens.api.plan.reading.amount import UNREADABLE, above_zero, grams_of, whole_of
from twinlens.api.plan.reading.money import Prices, machine_of, traffic_of, volume_of, way_of
from twinlens.api.plan.reading.options import MONEY
from twinlens.api.plan.reading.paid import PAID, Paid
from twinlens.api.plan.reading.prices import UNUSABLE, one, one_currency, prices_of, quoted
from twinlens.api.plan.reading.subject import device_of
from twinlens.api.question import Kind, Verb, asks, option
from twinlens.errors import BadInput
from twinlens.planning.cost.answer import Cost, Training, carbon_of
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.request import Traffic, of_api, on_machine
from twinlens.planning.cost.volume import month_of
from twinlens.planning.figure import Figure, Input
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.spec.device import Device
from twinlens.system.home_folder import catalogue_folder

if TYPE_CHECKING:
    from twinlens.api.words import PlanCostWords
    from twinlens.reporting.document.block import Document


@dataclass(frozen=True, slots=True, repr=False)
class CostResult(Documented):
    """An answer: what an hour, a request, a million tokens and a month cost, and why. `notes`: how words were read."""

    answer: Cost
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.cost import cost_document

        return cost_document(self.answer, self.notes)

    def why(self) -> dict[str, Any]:
        return encode(self.answer)

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), self.notes)


class CostAsked(Paid):
    """What serving costs."""

    way: Annotated[str, option("rent, reserved, buy or api, where several have a price.", Kind("HOW"))] | None = None
    life: Annotated[str, option("Over which it is written off: '36 months'.", Kind("TIME"))] | None = None
    output_weight: Annotated[str, option("An output token, in input tokens: 4.", Kind("TIMES"))] | None = None
    retries: Annotated[str, option("Requests made again: 3%.", Kind("SHARE"))] | None = None
    hits: Annotated[str, option("Answered from a cache, without the model: 20%.", Kind("SHARE"))] | None = None
    users: Annotated[str, option("In a month.", Kind("COUNT"))] | None = None
    uses: Annotated[str, option("Requests of a user a day.", Kind("COUNT"))] | None = None
    days: Annotated[str, option("Of a month; 365 / 12 without it.", Kind("COUNT"))] | None = None
    revenue: Annotated[str, option("Of a user: '20 USD/user/month', for the margin.", MONEY)] | None = None
    training: Annotated[str, option("Of the training run: '100M USD'.", MONEY, head="Money")] | None = None
    training_hours: Annotated[str, option("Device-hours of it, at the rent.", Kind("HOURS"))] | None = None
    requests: Annotated[str, option("That the training run is spread over.", Kind("COUNT"))] | None = None
    carbon: Annotated[str, option("Of the grid: '400 g/kWh'.", Kind("AMOUNT"))] | None = None
    carbon_source: Annotated[str, option("Who says so, and for when.", Kind("WORDS"))] | None = None


VERB = Verb("plan cost", (CostAsked,), "--throughput '4 requests/s' --rent '3 USD/h'", "Every figure with its formula.",
            ("--why", "--all"))  # fmt: skip


@asks(VERB)
def cost(throughput: object = None, **words: Unpack[PlanCostWords]) -> CostResult:
    """What it costs: a request, a million tokens, a thousand users a month; hardware and energy apart.

    `cost(model="70B", device="B200", devices=2, users=1000)`, `cost("4 requests/s", rent="3 USD/h")`. With a model its
    predicted rate within `ttft` and `tpot` is taken, with its band. Raises BadInput for values that cannot be (TL231),
    and for prices that are missing, undated, mixed or per something else (TL234).
    """
    asked = CostAsked.read(VERB.name, {"throughput": throughput, **words})
    options = asked.model_dump(exclude_none=True)
    whole = catalogue_of(catalogue_folder(asked.catalogue))
    known = dict(prices_of({name: options.get(name) for name in (*PAID, "training", "revenue")}, asked.prices))
    named, read = device_of(asked.device, whole) if asked.device else (None, ())
    how = way_of(asked.way, known, named)
    if how != "api" and how not in known:
        if named is None:
            raise BadInput(
                f"no price to {how}: give --{how}, or a --device that the catalogue has a price of", code=UNUSABLE
            )
        known[how] = (quoted(how, named.name, whole),)
        one_currency(each for several in known.values() for each in several)
    modelled = predicted(asked.device, asked.devices, options, asked.catalogue)
    traffic, power_w, notes = traffic_of(asked.throughput, asked.like, how, options, modelled)
    many = asked.devices if modelled is None else modelled.devices
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
