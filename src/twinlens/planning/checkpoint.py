"""The best time between two saves of training, with its band, from what a save and a restart cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure, Input
from twinlens.theory.waiting.checkpoint import daly, goodput, young

FIRST_ORDER = 0.05
"""How far Young's formula may be from Daly's before it is said not to hold."""
_LONGEST = 0.1  # an interval "far below" the time between failures is below a tenth of it


@dataclass(frozen=True, slots=True)
class Span:
    """A number of seconds with its band; the ends are those of an interval, or of what was asked."""

    low: float
    value: float
    high: float
    source: str
    origin: Any = "quoted"

    def input(self, name: str) -> Figure:
        """The same as an input of a figure."""
        ends = (self.low, self.high) if self.low < self.high else (None, None)
        return Figure(name, self.value, "s", low=ends[0], high=ends[1], origin=self.origin, source=self.source)


@dataclass(frozen=True, slots=True)
class SavePlan:
    """`interval`: Daly's, with its band; `first_order`: Young's. `kept`, `kept_now`: goodput at the best interval and
    at that of the run, None where there is no run. `steps`: the interval in steps, absent without a step time.
    `beside`: the goodput at half and at twice the best."""

    interval: Figure
    first_order: Figure
    kept: Figure
    beside: tuple[Figure, Figure]
    steps: Figure | None = None
    kept_now: Figure | None = None
    devices: int | None = None

    def figures(self) -> tuple[Figure, ...]:
        """All of them, in the order in which they are told."""
        known = (self.interval, self.steps, self.first_order, self.kept, *self.beside, self.kept_now)
        return tuple(each for each in known if each is not None)

    def notes(self) -> tuple[Finding, ...]:
        """Whether Young's formula would do."""
        ratio = self.first_order.number / self.interval.number - 1
        share = self.interval.number / float(_named(self.interval, "time-between-failures").number)
        numbers = {"off": ratio, "share": share, "limit": FIRST_ORDER}
        holds = abs(ratio) <= FIRST_ORDER and share <= _LONGEST
        return (Finding("young-holds" if holds else "young-does-not-hold", "notes", "", numbers),)

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        return {
            "devices": self.devices,
            "figures": self.figures(),
            "findings": self.notes(),
        }


def save_plan(
    save: Span, restart: Span, failure: Span, step_s: float | None, now_s: float | None, devices: int | None
) -> SavePlan:
    """`now_s`: the interval of the run. The best interval grows with both a save's cost and the time between failures,
    so the ends of its band are those of both together."""
    costs = (save.input("cost-of-a-save"), failure.input("time-between-failures"))
    interval = Figure(
        "save-interval", daly(save.value, failure.value), "s",
        "Daly: √(2 × {0} × {1}), of higher order, less {0}", costs,
        *_band(daly(save.low, failure.low), daly(save.value, failure.value), daly(save.high, failure.high)),
    )  # fmt: skip
    simple = Figure("young-interval", young(save.value, failure.value), "s", "√(2 × {0} × {1})", costs)

    def kept(name: str, each_s: float) -> Figure:
        at = [
            goodput(each_s, save.high, restart.high, failure.low),
            goodput(each_s, save.value, restart.value, failure.value),
            goodput(each_s, save.low, restart.low, failure.high),
        ]
        of = (Input("interval", each_s, "s", "computed"), costs[0], restart.input("restart"), costs[1])
        return Figure(name, at[1], "1", "{0} / ({3} × e^({2} / {3}) × (e^(({0} + {1}) / {3}) − 1))", of, *_band(*at))

    best_s = interval.number
    steps = None
    if step_s is not None:
        steps = Figure("save-steps", float(max(1, round(best_s / step_s))), "steps", "{0} / {1}",
                       (interval, Input("step", step_s, "s", "measured")))  # fmt: skip
    return SavePlan(
        interval, simple, kept("goodput", best_s),
        (kept("goodput-at-half", best_s / 2), kept("goodput-at-twice", 2 * best_s)), steps,
        None if now_s is None else kept("goodput-now", now_s), devices,
    )  # fmt: skip


def _band(low: float, value: float, high: float) -> tuple[float, float] | tuple[None, None]:
    low, high = sorted((low, high))
    return (min(low, value), max(high, value)) if low < high else (None, None)


def _named(figure: Figure, name: str) -> Figure:
    return next(each for each in figure.inputs if isinstance(each, Figure) and each.name == name)
