"""A server that decodes up to 16 requests together, as engines for language models do: its waits, and their truth."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from functools import cache

import numpy as np

from benchmarks.coverage.truths import QUANTILES, plain
from twinlens.record.request import Requests

SLOTS = 16
_STEP_S, _STEP_PER_SLOT_S = 0.010, 0.001
_TOKENS, _SPREAD = 48.0, 0.6
MOST_PER_S = SLOTS / (_TOKENS * math.exp(_SPREAD**2 / 2) * (_STEP_S + SLOTS * _STEP_PER_SLOT_S))
"""Requests per second that full batches come to: load 1."""


def decoded(rng: np.random.Generator, n: int, load: float, burn: int = 3000) -> Requests:
    """n requests at `load` of what full batches come to, as rows of two chunks; `burn` more fill the server before.

    Answers are of 48 tokens at the median (lognormal, σ 0.6). A step takes 10 ms and 1 ms for each request in it;
    whoever waits joins at its end while a place is free, first come, first served.
    """
    total = n + burn
    due, tokens = np.cumsum(rng.exponential(1 / (load * MOST_PER_S), total)), _lengths(rng, total)
    first, end = _batched(due.tolist(), tokens.tolist())
    return _rows(due, first, end, tokens, burn)


def in_turn(rng: np.random.Generator, n: int, users: int, burn: int = 500) -> Requests:
    """n requests of `users` who each send the next as the last is answered, to the same server; `burn` more before."""
    tokens = _lengths(rng, n + burn)
    due, first, end = _closed(tokens.tolist(), users)
    return _rows(due, first, end, tokens, burn)


def _lengths(rng: np.random.Generator, total: int) -> np.ndarray:
    return np.maximum(1, np.rint(_TOKENS * np.exp(_SPREAD * rng.normal(size=total)))).astype(np.int64)


def _rows(due: np.ndarray, first: np.ndarray, end: np.ndarray, tokens: np.ndarray, burn: int) -> Requests:
    n = due.size - burn
    begin_s = due[burn] - 1e-6
    kept = [np.round((each[burn:] - begin_s) * 1e9).astype(np.int64) for each in (due, first, end)]
    intended, first_ns, end_ns = kept
    chunks = np.column_stack((first_ns, end_ns)).ravel()
    rows = plain(intended, np.arange(0, 2 * n + 1, 2), chunks)
    spread = np.column_stack((np.ones(n, np.int64), tokens[burn:] - 1)).ravel()
    return replace(rows, output_tokens=tokens[burn:], chunk_tokens=spread)


def _batched(due: list[float], tokens: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """First and last token of each request. From one change of the batch to the next, all steps are alike."""
    n, head, step, now_s = len(due), 0, 0, 0.0
    first, end = np.empty(n), np.empty(n)
    inside: list[tuple[int, int]] = []  # the step that ends it, and the request
    while head < n or inside:
        if not inside:
            now_s = max(now_s, due[head])
        joined = head
        while head < n and due[head] <= now_s and len(inside) < SLOTS:
            heapq.heappush(inside, (step + tokens[head], head))
            head += 1
        took_s = _STEP_S + _STEP_PER_SLOT_S * len(inside)
        first[joined:head] = now_s + took_s
        steps = inside[0][0] - step
        if head < n and len(inside) < SLOTS:
            steps = min(steps, max(1, math.ceil((due[head] - now_s) / took_s)))
        step, now_s = step + steps, now_s + steps * took_s
        while inside and inside[0][0] <= step:
            end[heapq.heappop(inside)[1]] = now_s
    return first, end


def _closed(tokens: list[int], users: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """When each request was due, its first token and its last: who was answered joins the end of the queue."""
    n, head, asked, step, now_s = len(tokens), 0, min(users, len(tokens)), 0, 0.0
    due, first, end = np.zeros(n), np.empty(n), np.empty(n)
    inside: list[tuple[int, int]] = []
    while head < asked or inside:
        joined = head
        while head < asked and len(inside) < SLOTS:
            heapq.heappush(inside, (step + tokens[head], head))
            head += 1
        took_s = _STEP_S + _STEP_PER_SLOT_S * len(inside)
        first[joined:head] = now_s + took_s
        steps = inside[0][0] - step
        step, now_s = step + steps, now_s + steps * took_s
        while inside and inside[0][0] <= step:
            end[heapq.heappop(inside)[1]] = now_s
            if asked < n:
                due[asked] = now_s
                asked += 1
    return due, first, end


@cache
def true_waits(load: float, count: int = 1_000_000) -> dict[str, float]:
    """Quantiles of TTFT and of the whole stay at a load, from one long run, by metric."""
    rows = decoded(np.random.default_rng(95), count, load)
    waits = {"ttft_s": rows.chunk_ns[::2] - rows.intended_ns, "e2e_latency_s": rows.end_ns - rows.intended_ns}
    return {
        f"{name}_p{100 * q:g}": float(np.quantile(values / 1e9, q)) for name, values in waits.items() for q in QUANTILES
    }
