"""Arrivals of requests: open loops do not wait for answers, closed loops do.

The two answer different questions and do not share an axis (Schroeder, Wierman, Harchol-Balter 2006, "Open versus
closed: a cautionary tale"). How hard is no part of it: `point.rate_per_s` and `point.concurrency` are swept freely.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec


class Lockstep(Spec):
    """Engine level: `point.batch` requests start together, the next batch when all of them are done."""

    kind: Literal["lockstep"] = "lockstep"


class Constant(Spec):
    """Open loop, equal gaps: the k-th request is due at k / rate."""

    kind: Literal["constant"] = "constant"


class Poisson(Spec):
    """Open loop, independent exponential gaps (cv = 1)."""

    kind: Literal["poisson"] = "poisson"


class Gamma(Spec):
    """Open loop, independent gamma gaps with coefficient of variation `cv`: 1 is Poisson, more is bursty.

    vLLM's "burstiness" is 1 / cv².
    """

    kind: Literal["gamma"] = "gamma"
    cv: PositiveFloat

    @property
    def burstiness(self) -> float:
        """The same in vLLM's word: the shape of the gamma law."""
        return 1 / self.cv**2


class Ramp(Spec):
    """Open loop whose rate goes in a straight line from one value to another over the duration.

    `gaps`: "poisson" (an inhomogeneous Poisson process) or "constant" (the same, without chance).
    """

    kind: Literal["ramp"] = "ramp"
    from_per_s: NonNegativeFloat
    to_per_s: PositiveFloat
    gaps: Literal["poisson", "constant"] = "poisson"


TraceFormat = Literal["azure", "burstgpt", "mooncake", "csv"]


class Trace(Spec):
    """Open loop: arrivals and lengths as recorded in a file. `speedup` 2 plays it twice as fast; lengths stay.

    `start_s`: where in the recording to begin. The duration is the protocol's.
    """

    kind: Literal["trace"] = "trace"
    path: str
    format: TraceFormat
    speedup: PositiveFloat = 1.0
    start_s: NonNegativeFloat = 0.0


class Closed(Spec):
    """Closed loop: `point.concurrency` requests in flight, the next one starts when one is done."""

    kind: Literal["closed"] = "closed"


class SingleStream(Spec):
    """Closed loop with one request in flight."""

    kind: Literal["single-stream"] = "single-stream"


class Offline(Spec):
    """All `requests` are due at once, at the start."""

    kind: Literal["offline"] = "offline"
    requests: PositiveInt


Arrival = Annotated[
    Lockstep | Constant | Poisson | Gamma | Ramp | Trace | Closed | SingleStream | Offline,
    Field(discriminator="kind"),
]
