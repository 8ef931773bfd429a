"""Overload: the backlog of requests, and whether it keeps growing."""

from __future__ import annotations

from typing import Literal

import numpy as np

from twinlens.record.finding import Finding
from twinlens.record.request import Requests
from twinlens.stats.estimator.interval import FEWEST_INDEPENDENT, reach
from twinlens.stats.estimator.trend import theil_sen

_BLOCKS = 20  # of the trend: enough for a slope, few enough to be nearly independent
_TREND_LEVEL = 0.99  # one steady run in a hundred may be called overloaded


def overload(requests: Requests, order: np.ndarray, fill: int) -> tuple[float, Finding] | None:
    """How fast the backlog grows and the finding on it; None where it does not.

    Two tests have to agree at 99 %. Arrivals less ends in each block must have a mean above 0: below capacity they
    sum to a bounded number, above it they are the steps of a walk with a drift. And the Theil–Sen slope of requests
    in flight must be above 0, so that one stall, from which the server recovers, is no overload.
    """
    begin_ns, last_ns = int(requests.intended_ns[order[fill]]), int(requests.intended_ns[order[-1]])
    if last_ns - begin_ns < _BLOCKS or len(order) - fill < 2 * _BLOCKS:
        return None
    edges = np.linspace(begin_ns, last_ns, _BLOCKS + 1).astype(np.int64)
    arrived, ended = (np.histogram(times, edges)[0] for times in (requests.intended_ns, requests.end_ns))
    growth = (arrived - ended).astype(np.float64)
    drift = reach(growth, _TREND_LEVEL)
    level = in_flight(requests.intended_ns, requests.end_ns, edges)
    slope, low, _ = theil_sen(level, _TREND_LEVEL)
    if drift.independent < FEWEST_INDEPENDENT or float(growth.mean()) <= drift.below or low <= 0:
        return None
    block_s = (last_ns - begin_ns) / 1e9 / _BLOCKS
    numbers = {
        "in_flight_first": level[0],
        "in_flight_last": level[-1],
        "due": int(arrived.sum()),
        "ended": int(ended.sum()),
        "waits": _waits(requests, order),
    }
    return slope / block_s, Finding("overload", "disqualifies", "", numbers)


def _waits(requests: Requests, order: np.ndarray) -> Literal["client", "admission", "server"]:
    """Where late requests waited most: held by the admission policy, in the client, or at the server."""
    late = order[-max(1, len(order) // 5) :]
    stay = float(np.mean(requests.end_ns[late] - requests.intended_ns[late]))
    sent = requests.sent_ns[late]
    released = released_ns(requests)[late]
    held = float(np.mean(released - requests.intended_ns[late]))
    client = float(np.mean(np.maximum(sent - released, 0.0)))  # what was never sent waited for nobody
    if stay > 0 and client > stay / 2:
        return "client"
    if stay > 0 and held > stay / 2:
        return "admission"
    return "server"


def released_ns(requests: Requests) -> np.ndarray:
    """When each row was free to be sent: the policy's release, or the intended time where no policy held it."""
    return np.asarray(np.where(np.isnan(requests.released_ns), requests.intended_ns, requests.released_ns))


def in_flight(begin_ns: np.ndarray, end_ns: np.ndarray, edges_ns: np.ndarray) -> np.ndarray:
    """The mean number of requests between begin and end in each interval of `edges_ns` [k + 1]. Shape: (k,).

    Those under way at its beginning stay for all of it, and each arrival adds what is left of it; each end takes that
    off. No sum grows with the run, so none loses digits.
    """
    (begun, rest), (ended, spared) = (_passed(_in_order(times), edges_ns) for times in (begin_ns, end_ns))
    width = np.diff(edges_ns.astype(np.float64))
    return np.asarray(begun - ended + (rest - spared) / width)


def _passed(times_ns: np.ndarray, edges_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many sorted `times_ns` each interval begins after [k], and the sum of times from those inside to its end."""
    at = np.searchsorted(times_ns, edges_ns, side="right")
    inside = zip(at[:-1].tolist(), at[1:].tolist(), edges_ns[1:].tolist(), strict=True)
    return at[:-1], np.array([(end_ns - times_ns[begin:end]).sum(dtype=np.float64) for begin, end, end_ns in inside])


def _in_order(times_ns: np.ndarray) -> np.ndarray:
    """Times by size. Rows are nearly in order, so they are merged: half of what a quick sort takes."""
    return times_ns if (times_ns[1:] >= times_ns[:-1]).all() else np.sort(times_ns, kind="stable")
