"""Arrivals of requests: open loops do not wait for answers, closed loops do.

The two answer different questions and do not share an axis (Schroeder, Wierman, Harchol-Balter 2006, "Open versus
closed: a cautionary tale"). How hard is no part of it: `point.rate_per_s` and `point.concurrency` are swept freely.
"""

from __future__ import annotations

from pathlib import Path
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
    cv: PositiveFloat = Field(
        description="The coefficient of variation of the gaps: 1 is Poisson, more is bursty.", examples=[2.0]
    )

    @property
    def burstiness(self) -> float:
        """The same in vLLM's word: the shape of the gamma law."""
        return 1 / self.cv**2


class Ramp(Spec):
    """Open loop whose rate goes in a straight line from one value to another over the duration."""

    kind: Literal["ramp"] = "ramp"
    from_per_s: NonNegativeFloat = Field(description="The rate at the start.", examples=[1.0])
    to_per_s: PositiveFloat = Field(description="The rate at the end.", examples=[16.0])
    gaps: Literal["poisson", "constant"] = Field(
        "poisson", description='"poisson" for an inhomogeneous Poisson process, "constant" for the same without chance.'
    )


TraceFormat = Literal["azure", "burstgpt", "mooncake", "csv", "run"]


class Trace(Spec):
    """Open loop: arrivals and lengths as recorded in a file. The duration is the protocol's."""

    kind: Literal["trace"] = "trace"
    path: str = Field(
        description="The file of recorded arrivals; of the format run, the folder of a run.", examples=["arrivals.csv"]
    )
    format: TraceFormat = Field(description="The format of the file.", examples=["azure"])
    speedup: PositiveFloat = Field(1.0, description="How much faster it is played than recorded; lengths stay.")
    start_s: NonNegativeFloat = Field(0.0, description="Where in the recording to begin.")

    @property
    def file(self) -> Path:
        """The file that has the rows."""
        return Path(self.path) / "requests.arrows" if self.format == "run" else Path(self.path)


class Closed(Spec):
    """Closed loop: `point.concurrency` requests in flight, the next one starts when one is done."""

    kind: Literal["closed"] = "closed"


class SingleStream(Spec):
    """Closed loop with one request in flight."""

    kind: Literal["single-stream"] = "single-stream"


class Offline(Spec):
    """All `requests` are due at once, at the start."""

    kind: Literal["offline"] = "offline"
    requests: PositiveInt = Field(description="How many requests are due at once.", examples=[1000])


Arrival = Annotated[
    Lockstep | Constant | Poisson | Gamma | Ramp | Trace | Closed | SingleStream | Offline,
    Field(discriminator="kind"),
]
