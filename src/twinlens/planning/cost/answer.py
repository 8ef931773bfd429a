"""The answer to what it costs: of an hour, a request, a million tokens, a month, and of the training before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlens.planning.cost.algebra import computed
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.request import Each, Traffic
from twinlens.planning.cost.volume import Month
from twinlens.planning.figure import Figure, each_once
from twinlens.record.finding import Finding


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
