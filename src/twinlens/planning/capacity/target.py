"""Targets that a served load has to keep, and head-room that is bought beyond the load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinlens.errors import BadInput
from twinlens.planning.figure import Input
from twinlens.planning.prediction.answer import Said, ServingAnswer

Of = Literal["p99", "mean"]


@dataclass(frozen=True, slots=True)
class Target:
    """Limits of TTFT and TPOT in seconds; None: no limit. `of`: what keeps them, 99 of 100 requests or their mean."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    of: Of = "p99"

    def missed_by(self, answer: ServingAnswer, end: str = "value") -> str | None:
        """The first limit that is not kept: "ttft", "tpot", or None. `end`: "value", "low" or "high" of the bands."""
        ttft_s, tpot_s = end_of(answer.ttft_s, end), end_of(answer.tpot_s, end)
        if self.of == "p99":
            ttft_s *= answer.tail.ttft_s / answer.ttft_s.value
            tpot_s *= answer.tail.tpot_s / answer.tpot_s.value
        if self.tpot_s is not None and tpot_s > self.tpot_s:
            return "tpot"
        return "ttft" if self.ttft_s is not None and ttft_s > self.ttft_s else None

    def inputs(self) -> tuple[Input, ...]:
        limits = (("ttft-limit", self.ttft_s), ("tpot-limit", self.tpot_s))
        return tuple(Input(name, value, "s") for name, value in limits if value is not None)


@dataclass(frozen=True, slots=True)
class Headroom:
    """The load at its peak over the load, and copies of the model that may fail at a time.

    Raises BadInput (TL231) for a peak below 1, and for a negative number of copies.
    """

    peak: float = 1.0
    spare: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.peak <= 1000:
            raise BadInput(f"--peak is the peak over the mean load, from 1 up, not {self.peak:g}", code="TL231")
        if not 0 <= self.spare <= 1000:
            raise BadInput(f"--spare is a count of copies from 0 up, not {self.spare}", code="TL231")


def end_of(said: Said, end: str) -> float:
    """ "value", or the "low" or "high" end of its band."""
    return float(getattr(said, end))
