"""The verb that says what serving costs: from words, a run and prices to an answer with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from twinlens.api.documented import Answered
from twinlens.api.plan.predicted import predicted
from twinlens.api.plan.reading.amount import UNREADABLE, grams_of, up_to, whole_of
from twinlens.api.plan.reading.money import PAID, WAYS, Paid, Prices, machine_of, share_up_to, traffic_of, way_of
from twinlens.api.plan.reading.options import MONTHS, WHOLE, WORDS, one
from twinlens.api.plan.reading.prices import MONEY, UNUSABLE, Typed, one_currency, price_of, prices_of, quoted
from twinlens.api.plan.reading.subject import device_of
from twinlens.api.question import Kind, Verb, asks, option
from twinlens.errors import BadInput
from twinlens.planning.cost.answer import Cost, Training, carbon_of
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.request import Traffic, of_api, on_machine
from twinlens.planning.cost.volume import Volume, month_of
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.spec.device import Device
from twinlens.system.home_folder import catalogue_folder
from twinlens.theory.figure import Figure, Input

if TYPE_CHECKING:
    from twinlens.api.words import PlanCostWords
    from twinlens.reporting.document.block import Document


@dataclass(frozen=True, slots=True, repr=False)
class CostResult(Answered):
    """An answer: what an hour, a request, a million tokens and a month cost, and why. `notes`: how words were read."""

    answer: Cost
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.cost import cost_document

        return cost_document(self.answer, self.notes)


def _users(name: str, word: object) -> int:
    return whole_of(name, word, 1e10)


_WEIGHT, _HOURS = Kind("TIMES", up_to(1000)), Kind("HOURS", up_to(1e12))


class CostAsked(Paid):
    """What serving costs."""

    way: Annotated[str, option("rent, reserved, buy or api, where several have a price.", one("HOW", WAYS))] | None = (
        None
    )
    life: Annotated[float, option("Over which it is written off: '36 months'.", MONTHS)] | None = None
    output_weight: Annotated[float, option("An output token, in input tokens: 4.", _WEIGHT)] | None = None
    retries: Annotated[float, option("Requests made again: 3%.", share_up_to(10.0))] | None = None
    hits: Annotated[float, option("Answered from a cache, without the model: 20%.", share_up_to(0.999))] | None = None
    users: Annotated[int, option("In a month.", Kind("COUNT", _users))] | None = None
    uses: Annotated[float, option("Requests of a user a day.", Kind("COUNT", up_to(1e6)))] | None = None
    days: Annotated[float, option("Of a month; 365 / 12 without it.", Kind("COUNT", up_to(31)))] | None = None
    revenue: Annotated[Typed, option("Of a user: '20 USD/user/month', for the margin.", MONEY)] | None = None
    training: Annotated[Typed, option("Of the training run: '100M USD'.", MONEY, head="Money")] | None = None
    training_hours: Annotated[float, option("Device-hours of it, at the rent.", _HOURS)] | None = None
    requests: Annotated[int, option("That the training run is spread over.", WHOLE)] | None = None
    carbon: Annotated[float, option("Of the grid: '400 g/kWh'.", Kind("AMOUNT", grams_of))] | None = None
    carbon_source: Annotated[str, option("Who says so, and for when.", WORDS)] | None = None


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
    whole = catalogue_of(catalogue_folder(asked.catalogue))
    known = prices_of(asked, (*PAID, "training", "revenue"), asked.prices)
    named, read = device_of(asked.device, whole) if asked.device else (None, ())
    how = way_of(asked.way, known, named)
    if how != "api" and how not in known:
        if named is None:
            raise BadInput(
                f"no price to {how}: give --{how}, or a --device that the catalogue has a price of", code=UNUSABLE
            )
        known[how] = (quoted(how, named.name, whole),)
        one_currency(each for several in known.values() for each in several)
    modelled = predicted(asked)
    traffic, power_w, notes = traffic_of(asked, how, modelled)
    traffic = replace(traffic, output_weight=asked.output_weight, retries=asked.retries, hits=asked.hits)
    many = asked.devices if modelled is None else modelled.devices
    machine = None if how == "api" else _used(machine_of(asked, how, known, named, many, power_w), asked)
    each = _each(machine, traffic, known)
    volume = None
    if asked.users is not None or asked.uses is not None:
        volume = Volume(asked.users or 1000, asked.uses, asked.days)
    month = None if volume is None else month_of(each, volume, traffic, machine, price_of(known, "revenue"))
    trained = _training(known, asked, whole, named)
    carbon = _carbon(asked, machine, traffic, month.requests if month else None)
    answer = Cost(machine, traffic, each, month, trained.figures(each.total) if trained else (), carbon)
    return CostResult(answer, (*notes, *read))


def _used(machine: Machine, asked: CostAsked) -> Machine:
    """The machine with the hours that serve, and its life. Raises BadInput (TL231) for one that never serves."""
    if asked.busy == 0:
        raise BadInput(
            "--busy is a share above 0: a machine that never serves has no cost per request", code=UNREADABLE
        )
    if asked.busy is not None:
        machine = replace(machine, busy=asked.busy, is_busy_said=True)
    return machine if asked.life is None else replace(machine, life_months=asked.life, is_life_said=True)


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


def _training(known: Prices, asked: CostAsked, whole: Catalogue, device: Device | None) -> Training | None:
    money, hours = price_of(known, "training"), asked.training_hours
    if money is None and hours is None:
        if asked.requests is not None:
            raise BadInput(
                "--requests is what a training run is spread over: give --training or --training-hours", code=UNREADABLE
            )
        return None
    if money is not None:
        return Training(money, asked.requests)
    price = price_of(known, "rent") or price_of(known, "reserved")
    price = price or (quoted("rent", device.name, whole) if device else None)
    if price is None:
        raise BadInput("device-hours of training need a price of an hour: give --rent, or a --device", code=UNUSABLE)
    one_currency([price, *(each for several in known.values() for each in several)])
    return Training(None, asked.requests, hours, price.figure())


def _carbon(asked: CostAsked, machine: Machine | None, traffic: Traffic, monthly: Figure | None) -> tuple[Figure, ...]:
    if asked.carbon is None:
        return ()
    if not asked.carbon_source:
        raise BadInput("--carbon needs --carbon-source: who says so, and for when", code=UNREADABLE)
    return carbon_of(machine, traffic, monthly, Input("intensity", asked.carbon, "g/kWh", asked.carbon_source[:200]))
