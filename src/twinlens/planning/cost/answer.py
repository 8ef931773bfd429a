"""The answer to what it costs: of an hour, a request, a million tokens, a month, and of the training before it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from twinlens.planning.cost.algebra import computed, over, times
from twinlens.planning.cost.machine import Machine, Priced
from twinlens.planning.cost.request import Each, Traffic
from twinlens.planning.cost.volume import Month
from twinlens.record.finding import Finding, each_once
from twinlens.theory.figure import Figure, Input, absent


@dataclass(frozen=True, slots=True)
class Cost:
    """`machine` is None behind an API. `training` and `carbon` are () where nobody asked."""

    machine: Machine | None
    traffic: Traffic
    each: Each
    month: Month | None = None
    training: tuple[Figure, ...] = ()
    carbon: tuple[Figure, ...] = ()

    @property
    def energy_share(self) -> Figure | None:
        """Energy as a share of both halves; None where one is unknown."""
        halves = (self.each.energy, self.each.hardware)
        if any(half.value is None for half in halves) or not self.each.total.value:
            return None
        return computed("energy-share", "share", "{0} / ({0} + {1})", halves, lambda a, b: a / (a + b), falls=(1,))

    def hour(self) -> tuple[Figure, ...]:
        return () if self.machine is None else (self.machine.hardware(), self.machine.energy())

    def figures(self) -> tuple[Figure, ...]:
        """Every figure: of the month that was asked for, then of a request at full load."""
        each, share = self.each, self.energy_share
        first = (each.total, each.hardware, each.energy, *(() if share is None else (share,)))
        listed = () if each.listed is None else (each.listed,)
        months = () if self.month is None else self.month.figures()
        return (*months, *first, *listed, *each.million, *self.training, *self.carbon)

    def assumptions(self) -> tuple[Finding, ...]:
        """All that was taken for granted, each once."""
        found = [note for figure in (*self.figures(), *self.hour()) for note in figure.all_assumptions()]
        return each_once(found)

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data: each figure by its name."""
        return {
            "way": "api" if self.machine is None else self.machine.way,
            "devices": None if self.machine is None else self.machine.devices,
            "hour": self.hour(),
            "figures": self.figures(),
            "assumptions": self.assumptions(),
        }


# Carbon of what is served, from an intensity of the grid that the user gives with its source.


def carbon_of(
    machine: Machine | None, traffic: Traffic, monthly: Figure | None, intensity: Input
) -> tuple[Figure, ...]:
    """Grams of a request, and kilograms of a month; absent where no power is known."""
    if machine is None or machine.power is None or traffic.throughput is None:
        reason = Finding("plan-unknown", "notes", "carbon", {"needs": "power"})
        return (absent("carbon", "g/request", reason),)
    power = machine.power.node(machine.devices)
    energy = computed("energy-request", "kWh/request", "{0} / 1,000 / 3,600 / {1}", (power, traffic.throughput),
                      lambda watts, rate: watts / 3_600_000 / rate, falls=(1,))  # fmt: skip
    each = times("carbon", "g/request", energy, intensity)
    if monthly is None:
        return (each,)
    return (
        each,
        over(
            "carbon-month",
            "kg/month",
            times("grams", "g/month", each, monthly),
            Input("kilo", 1000, "1", "by definition"),
        ),
    )


# The cost of a training run, and what of it each request bears.

_SMALL = Decimal("0.05")


@dataclass(frozen=True, slots=True)
class Training:
    """A run of `money`, or of `device_hours` at a `rate`, spread over `requests`."""

    money: Priced | None
    requests: int | None
    device_hours: float | None = None
    rate: Figure | None = None

    def cost(self) -> Figure:
        """The run. Raises ValueError where neither money nor hours with a rate are known."""
        if self.money is not None:
            return times("training", self.money.currency, self.money.figure())
        if self.device_hours is None or self.rate is None:
            raise ValueError("a training run has a cost, or hours and their price")
        hours = Input("device-hours", self.device_hours, "h")
        return times("training", self.rate.unit.split("/")[0], hours, self.rate)

    def figures(self, serving: Figure) -> tuple[Figure, ...]:
        """The run, what a request bears, its share of both, and the requests at which it is half and 5 % of them."""
        run = self.cost()
        if self.requests is None:
            return (run, *_crossings(run, serving))
        count = Input("requests", self.requests, "requests")
        each = over("training-request", serving.unit, run, count)
        share = computed("training-share", "share", "{0} / ({0} + {1})", (each, serving),
                         lambda a, b: a / (a + b) if a + b else Decimal(0), falls=(1,))  # fmt: skip
        return (run, each, share, *_crossings(run, serving))


def _crossings(run: Figure, serving: Figure) -> tuple[Figure, ...]:
    """Requests at which training is as much as serving, and at which it is 5 % of both."""
    if not serving.value:
        return ()
    equal = over("training-equal", "requests", run, serving)
    small = computed("training-small", "requests", "{0} × (1 − 0.05) / (0.05 × {1})", (run, serving),
                     lambda a, b: a * (1 - _SMALL) / (_SMALL * b), falls=(1,))  # fmt: skip
    return (equal, small)
