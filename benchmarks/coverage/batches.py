"""Gaps between tokens of a server that decodes a batch of requests step by step."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from benchmarks.coverage.truths import first_order, plain
from twinlens.record.request import Requests

MEDIAN_S, SPREAD = 0.02, 0.3


def batched(
    rng: np.random.Generator, steps: int, slots: int, tokens: int = 64, phi: float = 0.0, own: float = 0.05
) -> Requests:
    """Requests of `tokens` tokens each from a server with `slots` places that are always taken, over `steps` steps.

    All requests of a step get their token at its end, to within `own` of a step's spread (the network). Times of steps
    are lognormal about `MEDIAN_S`, first-order with `phi` in their logarithm. Places begin spread over an answer.
    """
    took_s = MEDIAN_S * np.exp(SPREAD * first_order(rng, steps, phi))
    end_s = np.cumsum(took_s)
    begins = [(slot * tokens // slots + turn * tokens) for slot in range(slots) for turn in range(steps // tokens)]
    begins = sorted(first for first in begins if first + tokens <= steps)
    at = np.array(begins)[:, None] + np.arange(tokens)
    chunk_s = end_s[at] + own * SPREAD * MEDIAN_S * rng.normal(size=at.shape)
    chunk_ns = np.sort(np.round(chunk_s * 1e9).astype(np.int64), axis=1)
    return plain(chunk_ns[:, 0] - 1, np.arange(0, chunk_ns.size + 1, tokens), chunk_ns.ravel())


@cache
def true_gap_s(q: float, own: float = 0.05, count: int = 400_000) -> float:
    """The quantile of a gap: a step and the difference of two networks."""
    rng = np.random.default_rng(98)
    steps = MEDIAN_S * np.exp(SPREAD * rng.normal(size=count))
    jitter = own * SPREAD * MEDIAN_S * np.diff(rng.normal(size=count + 1))
    return float(np.quantile(steps + jitter, q)) if own else MEDIAN_S * math.exp(0.0)
