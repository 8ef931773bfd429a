"""Training in the gaps of serving on one device: a step begins whenever nobody waits, and is never cut short.

Requests are served one at a time, in their order. Not modelled: batches of requests, and weights that must be loaded
between serving and training (add it to each service that follows a step, or keep both in memory).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.work import Floats


@dataclass(frozen=True, slots=True, eq=False)
class InGaps:
    """`wait_s` [requests]: from arrival until serving begins. `steps`: training steps that were done within `span_s`,
    which ends with the last request."""

    wait_s: Floats
    steps: int
    span_s: float

    @property
    def steps_per_s(self) -> float:
        return self.steps / self.span_s


def in_gaps(arrival_s: Floats, service_s: Floats, step_s: Floats) -> InGaps:
    """Serve requests, [requests] both, and train meanwhile. `step_s` [k]: seconds of successive steps, from the first
    on again; none for serving alone. Raises BadInput."""
    arrivals, services = np.asarray(arrival_s, dtype=np.float64), np.asarray(service_s, dtype=np.float64)
    lasts = np.asarray(step_s, dtype=np.float64)
    if not len(arrivals) or arrivals.shape != services.shape or (np.diff(arrivals) < 0).any() or arrivals[0] < 0:
        raise BadInput("requests to serve beside training need arrivals in order, and for each the seconds it takes")
    if not np.isfinite([*services, *lasts]).all() or min([*services, *lasts]) <= 0:
        raise BadInput("requests and training steps take seconds above 0")
    waits, steps, free_s = np.empty(len(arrivals)), 0, 0.0
    whole_s = float(lasts.sum())
    for place, (arrives_s, takes_s) in enumerate(zip(arrivals.tolist(), services.tolist(), strict=True)):
        while len(lasts) and free_s <= arrives_s:
            rounds = int((arrives_s - free_s) // whole_s) if steps % len(lasts) == 0 else 0
            if rounds:  # whole rounds of steps at once
                free_s, steps = free_s + rounds * whole_s, steps + rounds * len(lasts)
                continue
            free_s, steps = free_s + float(lasts[steps % len(lasts)]), steps + 1
        begins_s = max(free_s, arrives_s)
        waits[place] = begins_s - arrives_s
        free_s = begins_s + takes_s
    return InGaps(waits, steps, free_s)
