"""Rows whose truth is known: series with and without memory, and queues in front of servers."""

from __future__ import annotations

import heapq
import math
from dataclasses import fields

import numpy as np
from scipy.signal import lfilter

from twinlens.record.request import Requests

BURN_IN = 300  # requests that fill an empty server before the first that counts


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


def served(rng: np.random.Generator, rate: float, n: int, servers: int, cv: float) -> Requests:
    """n requests at `rate` per second before `servers` that take 1 s each on average (M/G/c, gamma), as rows.

    The server is filled by `BURN_IN` requests before; each answer is one token at its end.
    """
    total = n + BURN_IN
    due = np.cumsum(rng.exponential(1 / rate, total))
    service = rng.gamma(1 / cv**2, cv**2, total) if cv else np.ones(total)
    free, ends = [0.0] * servers, np.empty(total)
    for i, (at, needs) in enumerate(zip(due.tolist(), service.tolist(), strict=True)):
        begin = max(heapq.heappop(free), at)
        ends[i] = begin + needs
        heapq.heappush(free, begin + needs)
    begin_s = due[BURN_IN] - 1e-6
    return rows(due[BURN_IN:] - begin_s, ends[BURN_IN:] - begin_s)


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
    unknown = {field.name: np.full(n, np.nan) for field in fields(Requests) if field.name not in known}
    return Requests(**known, **unknown)
