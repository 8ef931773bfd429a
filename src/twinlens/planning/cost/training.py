"""The cost of a training run, and what of it each request bears."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from twinlens.planning.cost.algebra import computed, over, times
from twinlens.planning.cost.price import Priced
from twinlens.planning.figure import Figure, Input

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
