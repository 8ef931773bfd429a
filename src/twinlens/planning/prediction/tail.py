"""Tails of latency: what 99 of 100 requests stay below, from the queue that gives the means.

Prompts and answers of one length each: lengths that vary make tails longer, and no public measurement holds them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from twinlens.planning.prediction.constant import Values
from twinlens.planning.prediction.place import Layout, Rates
from twinlens.planning.prediction.serving import ROOM_FOR_TWO, Served, interference_s
from twinlens.planning.prediction.step_time import decode_step
from twinlens.planning.prediction.work import Work

LEVEL = 0.99


@dataclass(frozen=True, slots=True)
class Tail:
    """Seconds that a share `LEVEL` of the requests stays within; infinite where a queue has no end."""

    ttft_s: float
    tpot_s: float


def open_tail(
    work: Work, rates: Rates, layout: Layout, fitted: Values, served: Served, prompt: float, answer: float
) -> Tail:
    """Requests that arrive at random.

    TTFT: a prompt waits for those before it, P(W > t) = ρ·exp(−ρ·t / E[W]), exact for M/M/1 and at heavy load for
    M/G/1 (Kingman 1962), and for two steps: the one under way, and its own beside those who decode. TPOT: sequences
    that decode are a processor-sharing queue, whose numbers do not depend on how lengths are distributed:
    π(n) = Π λ·m·s(k) / k for k up to n. A request that finds the 99th percentile of them keeps as many, with the 99th
    percentile of prefills (Poisson) while it decodes. Where a cache has room for one sequence, requests wait for whole
    requests before them, and no prefill of others comes while they decode.
    """
    rate, most = float(served.requests_per_s), max(int(np.floor(float(served.most))), 1)
    is_one = most < ROOM_FOR_TWO
    extra = float(np.ravel(interference_s(work, rates, layout, fitted, prompt, served.batch + 1.0, 1.0))[0])
    extra = float(served.prefill_s + answer * served.tpot_s) if is_one else extra
    busy, context = rate * extra, prompt + answer / 2.0
    if busy >= 1 or not math.isfinite(float(served.tpot_s)):
        return Tail(math.inf, math.inf)
    counts = np.arange(1.0, min(most, _enough(served)) + 1.0)
    steps = np.ravel(decode_step(work, rates, layout, fitted, counts, context).total_s) + 0.0 * counts
    logs = np.concatenate(([0.0], np.cumsum(np.log(rate * answer * steps / (1.0 - busy) / counts))))
    shares = np.cumsum(np.exp(logs - logs.max()))
    found = int(np.searchsorted(shares, LEVEL * shares[-1]))
    step = float(steps[min(found, len(steps) - 1)])
    prefills = 0.0 if is_one else _poisson(rate * answer * step / (1.0 - busy))
    queue = extra / (2.0 * (1.0 - busy)) * math.log(busy / (1.0 - LEVEL)) if busy > 1.0 - LEVEL else 0.0
    tpot = max(step + prefills * extra / answer, float(served.tpot_s))
    first = float(served.prefill_s) + max(queue, 0.0) + 2.0 * step + float(fitted.arrive_s)
    return Tail(max(first, float(served.ttft_s)), tpot)


def closed_tail(
    work: Work, rates: Rates, layout: Layout, fitted: Values, served: Served, users: float, prompt: float, answer: float
) -> Tail:
    """`users` who ask again at once: never more than all of them, so the tail has an end.

    TTFT: prompts before one's own are at most twice their mean (any place in a bunch is as likely), or what so many who
    ask at random come to, whichever is more, and never more than all others. TPOT: all decode, and each of the others
    brings one prompt while one decodes.
    """
    there = min(users, max(float(served.most), 1.0))
    extra = float(np.ravel(interference_s(work, rates, layout, fitted, prompt, there, there / answer))[0])
    mean = float(fitted.burst) * (there - 1.0)
    before = min(max(LEVEL * 2.0 * mean, _poisson(mean)), there - 1.0)
    step = float(np.ravel(decode_step(work, rates, layout, fitted, there, prompt + answer / 2.0).total_s)[0])
    first = float(served.ttft_s) + (before - mean) * extra + step / 2.0
    return Tail(first, max(step + max(there - 1.0, 0.0) * extra / answer, float(served.tpot_s)))


def _enough(served: Served) -> int:
    """Sequences beyond which a queue with that mean hardly ever is."""
    return int(20 + 20 * float(served.batch))


def _poisson(mean: float) -> float:
    """The count that a Poisson variable stays within with probability LEVEL."""
    from scipy.special import pdtrik

    return 0.0 if math.exp(-mean) >= LEVEL else float(np.ceil(pdtrik(LEVEL, mean)))
