"""The wait for the first token of a served run, and the same at a lower load: what other requests add to it.

A server without metrics does not say how long a request was in its queue. The same server at a lower load has a shorter
queue, so what the wait grows by is due to other requests, and is at least this long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.stats.estimator.dependence import too_dependent
from twinlens.stats.estimator.interval import mean_interval
from twinlens.stats.summary.group import Summary
from twinlens.units import SECONDS


@dataclass(frozen=True, slots=True)
class LowerLoad:
    """A run of the same work at a lower load. `load`: "1/s" or "1 in flight"; `wait`: its mean first-token wait."""

    run: str
    load: str
    wait: Estimate


def first_token_wait(run: Run, summary: Summary) -> Estimate:
    """Mean time from sending to the first token, of the requests of the steady window that ended well."""
    own = run.requests.own_time()
    rows = np.argsort(own.intended_ns, kind="stable")[summary.verdict.begin_row : summary.verdict.end_row]
    good = rows[own.outcome[rows] == "ok"]
    waited = (own.first_chunk_ns()[good] - own.sent_ns[good]) / 1e9
    known = waited[np.isfinite(waited)]
    return mean_interval(known, unit=SECONDS, method_suffix=", sent → first token", why_not=too_dependent(known)[0])


def added_wait(here: Estimate, lower: LowerLoad) -> Estimate | None:
    """How much longer the wait is here, with an interval that counts both of theirs at their worst; None where it is
    not shown to be longer."""
    other = lower.wait
    if None in (here.value, here.low, here.high, other.value, other.low, other.high):
        return None
    low, high = (here.low or 0.0) - (other.high or 0.0), (here.high or 0.0) - (other.low or 0.0)
    if low <= 0:
        return None
    method = f"mean first-token wait less that at {lower.load} ({lower.run}); bounds: of both at their worst"
    value = (here.value or 0.0) - (other.value or 0.0)
    return Estimate(value, SECONDS, method, "derived", low, high, here.level, here.n)
