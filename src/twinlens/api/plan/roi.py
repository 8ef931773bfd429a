"""The verb that says whether to buy: from prices and hours used to costs over months, and where buying pays."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from twinlens.api.documented import Answered
from twinlens.api.plan.predicted import Predicted, predicted
from twinlens.api.plan.reading.amount import UNREADABLE, each_of, months_of, share_of, up_to
from twinlens.api.plan.reading.money import PAID, Paid, Prices, machine_of, traffic_of
from twinlens.api.plan.reading.prices import MONEY, UNUSABLE, Typed, one_currency, price_of, prices_of, quoted
from twinlens.api.plan.reading.subject import device_of
from twinlens.api.question import Kind, Verb, asks, option
from twinlens.errors import BadInput
from twinlens.planning.cost.algebra import exact, times
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.request import of_api
from twinlens.planning.outlay import Terms
from twinlens.planning.roi import Roi
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.spec.device import Device
from twinlens.system.home_folder import catalogue_folder
from twinlens.theory.figure import Figure, Input, assumed

if TYPE_CHECKING:
    from twinlens.api.words import PlanRoiWords
    from twinlens.reporting.document.block import Document

_MONTHS = (12, 24, 36)
_MOST_HORIZONS = 12


@dataclass(frozen=True, slots=True, repr=False)
class RoiResult(Answered):
    """An answer: what each way costs over each horizon, and where buying pays. `notes`: how words were read."""

    answer: Roi
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.roi import roi_document

        return roi_document(self.answer, self.notes)


def _rate(name: str, word: object) -> Decimal:
    """A share a year. Raises BadInput (TL231), also for all of it in names that fall."""
    share = exact(share_of(name, word))
    if name.endswith("falls") and share == 1:
        raise BadInput(f"--{name} is below 100 %: what is worth nothing cannot fall", code=UNREADABLE)
    return share


def _whole_months(name: str, word: object) -> int:
    value = months_of(name, word)
    if value != int(value) or value > 240:
        raise BadInput(f"--{name} is in whole months, up to 240, not {str(word)[:40]}", code=UNREADABLE)
    return int(value)


def _horizons(name: str, months: object) -> tuple[int, ...]:
    found = sorted({_whole_months(name, word) for word in each_of(months)})
    if not 1 <= len(found) <= _MOST_HORIZONS:
        raise BadInput(f"--{name} has 1 to {_MOST_HORIZONS} horizons, as in 12,24,36", code=UNREADABLE)
    return tuple(found)


_YEARLY = Kind("SHARE", _rate)


class RoiAsked(Paid):
    """Whether to buy, rent, reserve or call an API."""

    hours: Annotated[float, option("Used a day: 8.", Kind("COUNT", up_to(24)))] | None = None
    months: Annotated[Any, option("Horizons: 12,24,36.", Kind("LIST", _horizons))] = _MONTHS
    resale_falls: Annotated[Decimal, option("Of its price a year, when sold: 30%.", _YEARLY)] | None = None
    rent_falls: Annotated[Decimal, option("Of the rent a year: 20%.", _YEARLY)] = Decimal(0)
    warranty: Annotated[Typed, option("'900 USD/year'.", MONEY)] | None = None
    discount: Annotated[Decimal, option("A year: 8%.", _YEARLY)] = Decimal(0)
    delivery: (
        Annotated[int, option("Until it works, rented meanwhile: '3 months'.", Kind("TIME", _whole_months))] | None
    ) = None
    finance: Annotated[Decimal, option("Interest of a loan.", _YEARLY)] | None = None
    finance_months: Annotated[int, option("Of it.", Kind("COUNT", _whole_months))] | None = None


VERB = Verb("plan roi", (RoiAsked,), "--device H100 --energy '0.1 USD/kWh'", "Every figure with its formula.",
            ("--why", "--all"))  # fmt: skip


@asks(VERB)
def roi(**words: Unpack[PlanRoiWords]) -> RoiResult:
    """To buy, rent, reserve or call an API: costs over months, where buying pays, and what flips it.

    `roi(buy="37500 USD", rent="3 USD/h", hours=8, energy="0.12 USD/kWh", power="700W")`. `busy`: share of hours used,
    or `hours` a day. Against an API what the machine serves: model (predicted, as in `cost`), like or throughput, with
    input_tokens and output_tokens. Raises BadInput (TL231, TL234).
    """
    asked = RoiAsked.read(VERB.name, words)
    whole = catalogue_of(catalogue_folder(asked.catalogue))
    known = prices_of(asked, (*PAID, "warranty"), asked.prices)
    named, notes = device_of(asked.device, whole) if asked.device else (None, ())
    notes += _fill(known, named, whole)
    if "buy" not in known or not any(way in known for way in ("rent", "reserved", "api")):
        lacks = "--buy '37500 USD'" if "buy" not in known else "--rent '3 USD/h', --reserved or --api"
        raise BadInput(f"buying is held against another way: give {lacks}, or a --device with a price", code=UNUSABLE)
    used = _busy(asked)
    modelled = predicted(asked) if "api" in known else None
    machine = machine_of(asked, "buy", known, named, asked.devices if modelled is None else modelled.devices)
    terms = _terms(machine, known, used, asked, modelled)
    notes += modelled.notes if modelled else ()
    is_said = asked.busy is not None or asked.hours is not None
    return RoiResult(Roi(terms, asked.months, _assumed(terms, is_said)), notes)


def _fill(known: dict[str, Typed], device: Device | None, whole: Catalogue) -> tuple[Finding, ...]:
    """Prices of the catalogue for what nobody gave, and a note for each way that has none, or none with a date."""
    notes = []
    for way in ("buy", "rent", "reserved") if device is not None else ():
        if way in known or device is None:
            continue
        try:
            known[way] = (quoted(way, device.name, whole),)
        except BadInput:
            notes.append(assumed("way-left-out", way, device=device.name))
    one_currency(each for several in known.values() for each in several)
    return tuple(notes)


def _terms(machine: Machine, known: Prices, busy: float, asked: RoiAsked, modelled: Predicted | None) -> Terms:
    many = Input("devices", machine.devices, "devices")
    currency = machine.currency

    def of_all(name: str, unit: str) -> Figure | None:
        price = price_of(known, name)
        return None if price is None else times(name, unit, price.figure(), many)

    def once(name: str) -> Figure | None:
        price = price_of(known, name)
        return None if price is None else price.figure()

    if (asked.finance_months is None) != (asked.finance is None):
        raise BadInput("a loan has an interest and a time: give --finance 6% and --finance-months 36", code=UNREADABLE)
    if asked.resale_falls is not None and "residual" in known:
        raise BadInput("--residual is one price at every age, and --resale-falls is by age; give one of them",
                       code=UNREADABLE)  # fmt: skip
    bought = of_all("buy", currency) or machine.spent()
    power = machine.power
    idle = None if power is None or power.idle_w is None else power.hour(machine.devices, power.idle_w)
    return Terms(
        currency, exact(busy), bought, machine.energy(), once("residual"), once("fixed"),
        once("warranty"), of_all("rent", f"{currency}/h"), of_all("reserved", f"{currency}/h"),
        _api(known, asked, modelled), asked.discount, asked.delivery or 0, asked.finance_months or 0,
        asked.finance or Decimal(0), idle, asked.rent_falls, asked.resale_falls,
    )  # fmt: skip


def _api(known: Prices, asked: RoiAsked, modelled: Predicted | None) -> Figure | None:
    """What the work of a busy hour would cost behind an API."""
    if "api" not in known:
        return None
    traffic, _, _ = traffic_of(asked, "rent", modelled)
    if traffic.throughput is None:
        raise BadInput(
            "an API is held against what the machine serves: give --model, --like or --throughput", code=UNREADABLE
        )
    try:
        each = of_api({price.money.per: price for price in known["api"]}, traffic)
    except KeyError:
        raise BadInput(
            "an API that is paid by the token needs --input-tokens and --output-tokens", code=UNREADABLE
        ) from None
    unit = f"{known['api'][0].currency}/h"
    return times("api", unit, each.total, traffic.throughput, Input("hour", 3600, "s", "by definition"))


def _busy(asked: RoiAsked) -> float:
    """The share of all hours that it is used. Raises BadInput (TL231) where it is said twice, and for none."""
    if asked.busy is not None and asked.hours is not None:
        raise BadInput("--busy and --hours both say how much it is used; give one of them", code=UNREADABLE)
    if asked.busy == 0:
        raise BadInput("--busy is a share above 0: what is never used is not bought", code=UNREADABLE)
    return asked.hours / 24 if asked.hours is not None else 1.0 if asked.busy is None else asked.busy


def _assumed(terms: Terms, is_busy_said: bool) -> tuple[Finding, ...]:
    said = {"hours": is_busy_said, "discount": bool(terms.discount), "residual": terms.residual is not None,
            "fixed": terms.fixed is not None, "delivery": bool(terms.delivery),
            "rent-falls": terms.rent is None or bool(terms.rent_falls),
            "same-residual": terms.residual is None,
            "idle-power": terms.busy == 1 or terms.idle is not None or not terms.energy.value}  # fmt: skip
    said["residual"] |= terms.resale_falls is not None
    taken = {"hours": "100 %", "residual": "nothing"}
    return tuple(assumed(name, taken.get(name, "none")) for name, known in said.items() if not known)
