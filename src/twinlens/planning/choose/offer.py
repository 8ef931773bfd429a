"""A system of a choice as an offer: the power of its machines, its quote, and what a million tokens cost."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from twinlens.planning.cost.algebra import computed
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.price import Priced
from twinlens.planning.cost.quoted import joined
from twinlens.planning.figure import Figure, Input, absent
from twinlens.planning.sold import node_power, unit_word
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device


@dataclass(frozen=True, slots=True)
class Paid:
    """Bought for a site of one's own, else rented by the hour. `busy`: share of hours used, which what is bought has to
    pay for; a rent is paid for hours of use alone."""

    way: Literal["buy", "rent"] = "rent"
    busy: float = 1.0


RENTED = Paid()


@dataclass(frozen=True, slots=True)
class Offer:
    """`power`: most watts of the machines, None where nobody states them. `price`: of one device, None where nobody
    quotes one. `million`: a million tokens at the predicted rate, hardware alone; absent without a price, never 0."""

    power: Figure | None
    price: Priced | None
    million: Figure
    unit: int = 1
    """Devices of the smallest thing that is sold, and its name: "board", "rack", "host", or "" for one alone."""
    unit_word: str = ""

    def __json__(self) -> dict[str, Any]:
        price = None if self.price is None else self.price.figure()
        return {"power": self.power, "price": price,
                "million": self.million, "unit": self.unit, "unit_word": self.unit_word}  # fmt: skip


def offer_of(device: Device, devices: int, rate: Figure, paid: Paid, catalogue: Catalogue) -> Offer:
    """The offer of `devices` devices that each do `rate`."""
    power, price = node_power(device, devices), joined(paid.way, catalogue.prices_of(device.name))
    sold = device.sold_in, unit_word(device)
    if price is None:
        lacks = Finding("plan-unknown", "notes", "million-each", {"needs": paid.way, "model": device.name})
        return Offer(power, None, absent("million-each", "USD/Mtoken", lacks), *sold)
    machine = Machine(paid.way, devices, price, paid.busy if paid.way == "buy" else 1.0, is_life_said=False)
    parts = (machine.hardware(), rate, Input("devices", devices, "devices"), Input("hour", 3600, "s", "by definition"))
    million = computed("million-each", f"{price.currency}/Mtoken", "1,000,000 × {0} / ({1} × {2} × {3})", parts,
                       lambda hour, each, many, seconds: Decimal(10) ** 6 * hour / (each * many * seconds),
                       falls=(1,))  # fmt: skip
    return Offer(power, price, million, *sold)
