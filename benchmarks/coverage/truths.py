"""Rows whose truth is known: series with and without memory, and queues in front of servers."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import fields
from functools import cache

import numpy as np
from scipy.signal import lfilter

from twinlens.record.request import Requests

BURN_IN = 300  # requests that fill an empty server before the first that counts
LONG_BURN_IN = 2000  # where a queue nearly as full as it can be has to be in its usual state
QUANTILES = (0.5, 0.9, 0.99)


def first_order(rng: np.random.Generator, n: int, phi: float) -> np.ndarray:
    """A stationary first-order series [n] of mean 0 and variance 1."""
    if phi == 0:
        return np.asarray(rng.normal(size=n))
    steps = rng.normal(size=n + 200)
    return np.asarray(lfilter([math.sqrt(1 - phi * phi)], [1, -phi], steps)[200:])


def stays(rng: np.random.Generator, n: int, load: float) -> np.ndarray:
    """How long each of n requests stays in a queue in front of one server (M/M/1), in service times. Steady state.

    Exponential with mean 1 / (1 - load), whatever came before the first.
    """
    burn = round(40 / (1 - load) ** 2)
    service = rng.exponential(1.0, n + burn)
    gaps = rng.exponential(1 / load, n + burn)
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
    return np.asarray((walk - np.minimum.accumulate(walk) + service)[burn:])


def served(rng: np.random.Generator, rate: float, n: int, servers: int, cv: float, burn: int = BURN_IN) -> Requests:
    """n requests at `rate` per second before `servers` that take 1 s each on average (M/G/c, gamma), as rows.

    The server is filled by `burn` requests before; each answer is one token at its end.
    """
    total = n + burn
    due = np.cumsum(rng.exponential(1 / rate, total))
    service = rng.gamma(1 / cv**2, cv**2, total) if cv else np.ones(total)
    free, ends = [0.0] * servers, np.empty(total)
    for i, (at, needs) in enumerate(zip(due.tolist(), service.tolist(), strict=True)):
        begin = max(heapq.heappop(free), at)
        ends[i] = begin + needs
        heapq.heappush(free, begin + needs)
    begin_s = due[burn] - 1e-6
    return rows(due[burn:] - begin_s, ends[burn:] - begin_s)


@cache
def stay_quantiles(servers: int, load: float, count: int = 1_000_000) -> dict[float, float]:
    """Quantiles of the stay before exponential `servers`, from one long run; known exactly for one server."""
    if servers == 1:
        return {q: -math.log1p(-q) / (1 - load) for q in QUANTILES}
    requests = served(np.random.default_rng(97), load * servers, count, servers, 1.0, LONG_BURN_IN)
    return _quantiles((requests.end_ns - requests.intended_ns) / 1e9)


Draw = Callable[[np.random.Generator, int], np.ndarray]


def truth_of(draw: Draw) -> tuple[float, dict[float, float]]:
    """The mean and the quantiles of a series, from ten long runs."""
    long = np.concatenate([draw(np.random.default_rng([96, run]), 200_000) for run in range(10)])
    return float(long.mean()), _quantiles(long)


def _quantiles(values: np.ndarray) -> dict[float, float]:
    return dict(zip(QUANTILES, np.quantile(values, QUANTILES).tolist(), strict=True))


def _queue(rng: np.random.Generator, n: int, load: float, gap_shape: float, service_shape: float) -> np.ndarray:
    """Stays before one server whose gaps and services are gamma of these shapes (1 is exponential)."""
    burn = round(80 / (1 - load) ** 2)
    service = rng.gamma(service_shape, 1 / service_shape, n + burn)
    gaps = rng.gamma(gap_shape, 1 / (gap_shape * load), n + burn)
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
    return np.asarray((walk - np.minimum.accumulate(walk) + service)[burn:])


def _neighbour(rng: np.random.Generator, n: int, stay: int) -> np.ndarray:
    """Rows a fifth slower while another program is there: a fifth of the time, for `stay` rows on end on average."""
    there = np.empty(n, bool)
    state = bool(rng.random() < 0.2)
    for row in range(n):
        if rng.random() < (1 / stay if state else 0.25 / stay):
            state = not state
        there[row] = state
    return rng.normal(1, 0.03, n) * np.where(there, 1.2, 1.0)


UNSEEN: tuple[tuple[str, Draw], ...] = (
    ("lognormal, σ 1, φ 0.6", lambda rng, n: np.exp(first_order(rng, n, 0.6))),
    ("mean of 5 exponentials on end", lambda rng, n: np.convolve(rng.exponential(1, n + 4), np.full(5, 0.2), "valid")),
    ("φ 0.95 half under noise", lambda rng, n: 5 + first_order(rng, n, 0.95) + rng.normal(size=n)),
    ("even services, load 0.7", lambda rng, n: _queue(rng, n, 0.7, 1.0, 400.0)),
    ("bursty arrivals (cv 2), load 0.6", lambda rng, n: _queue(rng, n, 0.6, 0.25, 1.0)),
    ("a neighbour for 5 rows", lambda rng, n: _neighbour(rng, n, 5)),
    ("a neighbour for 30 rows", lambda rng, n: _neighbour(rng, n, 30)),
)


def rows(intended_s: np.ndarray, end_s: np.ndarray) -> Requests:
    """Requests that were answered whole at their end with one token."""
    intended, end = (np.round(times * 1e9).astype(np.int64) for times in (intended_s, end_s))
    return plain(intended, np.arange(intended.size + 1), end)


def plain(intended_ns: np.ndarray, offsets: np.ndarray, chunk_ns: np.ndarray) -> Requests:
    """Requests that were sent when intended and answered well, a token a chunk; all else is not known."""
    n = intended_ns.size
    known = {
        "group": np.arange(n),
        "intended_ns": intended_ns,
        "sent_ns": intended_ns,
        "end_ns": chunk_ns[offsets[1:] - 1],
        "input_tokens": np.ones(n, np.int64),
        "output_tokens": np.diff(offsets),
        "outcome": np.full(n, "ok", dtype=object),
        "offsets": offsets,
        "chunk_ns": chunk_ns,
        "chunk_tokens": np.ones(chunk_ns.size, np.int64),
    }
    names = [field.name for field in fields(Requests) if field.init]
    unknown = {name: np.full(n, np.nan) for name in names if name not in known}
    return Requests(**known, **unknown)
