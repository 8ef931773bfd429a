"""Sampled answers: faults and lengths of all answers under load, and a few answers whole."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass

from twinlens.record.request import Request
from twinlens.record.sections import Response
from twinlens.schedule.request import ScheduledRequest
from twinlens.stats.compliance import TokenFaults

_SAMPLE = 16


@dataclass(frozen=True, slots=True)
class SampledResponse:
    """One answer and its request."""

    scheduled: ScheduledRequest
    row: Request
    response: Response


class ResponseSampler:
    """Listens under load: counts faults and lengths of all answers, and keeps a few of them whole, drawn evenly."""

    def __init__(self, seed: int) -> None:
        self.faults = TokenFaults()
        self.sample: list[SampledResponse] = []
        self.output_tokens, self.asked_tokens = array("q"), array("q")
        self._random = random.Random(seed)
        self._drawn = 0
        self._busy_ns = self._last_ns = 0
        self._first_ns: int | None = None

    def __call__(self, scheduled: ScheduledRequest, row: Request, response: Response) -> None:
        self._busy_ns += row.end_ns - row.sent_ns
        self._first_ns = row.sent_ns if self._first_ns is None else min(row.sent_ns, self._first_ns)
        self._last_ns = max(row.end_ns, self._last_ns)
        if row.outcome not in ("ok", "cut_off"):
            return
        self.faults = self.faults.plus(response, scheduled.output_tokens)
        self.output_tokens.append(row.output_tokens)
        self.asked_tokens.append(scheduled.output_tokens)
        if not scheduled.turn:  # a later turn holds what was said before: asked alone it would be another prompt
            self._draw(SampledResponse(scheduled, row, response))

    @property
    def mean_in_flight(self) -> float:
        """How many requests were under way, on average over time."""
        wall_ns = self._last_ns - (self._first_ns or 0)
        return self._busy_ns / wall_ns if wall_ns > 0 else 0.0

    def _draw(self, sampled: SampledResponse) -> None:
        """Reservoir sampling (Vitter 1985, algorithm R): every answer is kept with the same chance."""
        self._drawn += 1
        if len(self.sample) < _SAMPLE:
            self.sample.append(sampled)
        elif (place := self._random.randrange(self._drawn)) < _SAMPLE:
            self.sample[place] = sampled
