"""Choice as it is wanted: the work of each lens, its targets, and what the site allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from twinlens.planning.cost.algebra import computed
from twinlens.planning.cost.machine import Machine, Priced, joined
from twinlens.planning.fit.training import Method
from twinlens.planning.prediction.band import Calibrated
from twinlens.planning.sold import node_power, unit_word
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.figure import Figure, Input, absent

DAY_H = 24.0


@dataclass(frozen=True, slots=True)
class ServingWanted:
    """`users` who each ask again at once, with `prompt` and `answer` tokens. Targets None: none."""

    subject: Subject
    shape: DecoderShape
    users: int
    prompt: int
    answer: int
    precisions: tuple[str, ...]
    tpot_s: float | None
    ttft_s: float | None
    engine: str = "vllm"
    beside: tuple[ServingWanted, ...] = ()
    """Other models, each on devices of its own; targets and engine are those of the first."""

    @property
    def models(self) -> tuple[ServingWanted, ...]:
        """Each model alone, the first first."""
        alone = replace(self, beside=())
        return (alone, *(
            replace(alone, subject=each.subject, shape=each.shape, users=each.users, prompt=each.prompt,
                    answer=each.answer, precisions=each.precisions)
            for each in self.beside
        ))  # fmt: skip

    def __json__(self) -> dict[str, Any]:
        return {
            "model": self.subject.name, "users": self.users, "prompt": self.prompt, "answer": self.answer,
            "precisions": self.precisions, "tpot_s": self.tpot_s, "ttft_s": self.ttft_s, "engine": self.engine,
            "beside": self.models[1:],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainingWanted:
    """Steps of `sequences` of `length` tokens. `tokens_per_s`: a deadline as a rate; None: none."""

    subject: Subject
    shape: DecoderShape
    method: Method
    sequences: int
    length: int
    precisions: tuple[str, ...]
    tokens_per_s: float | None = None
    engine: str = "nemo"
    tokens: float | None = None
    """To train on, None where nobody said so."""

    def __json__(self) -> dict[str, Any]:
        return {
            "model": self.subject.name, "method": self.method, "sequences": self.sequences, "length": self.length,
            "precisions": self.precisions, "tokens_per_s": self.tokens_per_s, "engine": self.engine,
            "tokens": self.tokens,
        }  # fmt: skip


Need = Literal["ecc", "datacentre", "on-premise"]


@dataclass(frozen=True, slots=True)
class Site:
    """What a device must be, the power of all devices together, and the most devices of one system."""

    needs: frozenset[Need] = frozenset()
    power_w: float | None = None
    most_devices: int = 72


@dataclass(frozen=True, slots=True)
class Wanted:
    """`training_share` of the hours in use, from 0 to 1; a lens without a share has no work.

    `duty_h`: hours a day in which users are served, or in which is trained where nobody is.
    """

    serving: ServingWanted | None
    training: TrainingWanted | None
    training_share: float
    site: Site
    duty_h: float = DAY_H

    @property
    def trains_h(self) -> float:
        """Hours a day that training takes, by its share of the work."""
        return self.duty_h if self.serving is None else self.duty_h * self.training_share / (1 - self.training_share)

    def paid(self, lens: Literal["inference", "training"]) -> Paid:
        """Bought where the site has its own floor, and then paid in idle hours too."""
        hours = self.duty_h if lens == "inference" else min(self.trains_h, DAY_H)
        return Paid("buy" if "on-premise" in self.site.needs else "rent", hours / DAY_H)

    def __json__(self) -> Mapping[str, Any]:
        return {
            "inference": self.serving,
            "training": self.training,
            "training_share": self.training_share,
            "duty_h": self.duty_h,
            "site": self.site,
        }


# A system of a choice as an offer: the power of its machines, its quote, and what a million tokens cost.


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


# Constants of somebody's own runs in a choice: on the devices that they ran on they go before the public ones.


@dataclass(frozen=True, slots=True)
class Own:
    """`devices` and `engine` of the runs, and the constants that were moved to them."""

    devices: frozenset[str]
    engine: str
    known: Calibrated

    def labels(self, groups: tuple[str, ...], device: str) -> tuple[str, ...]:
        """Groups of constants of a device, with those of its own runs."""
        return (*groups, "own") if device in self.devices else groups


Owns = Mapping[Literal["serving", "training"], Own]
"""By lens; one without runs is absent."""


def known_on(device: str, own: Own | None, public: Calibrated) -> Calibrated:
    """The constants that hold on a device."""
    return own.known if own is not None and device in own.devices else public
