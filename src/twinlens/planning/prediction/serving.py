"""Serving under load: decode batch and prefill interference as a fixed point, TTFT as prefill and wait."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twinlens.planning.prediction.constant import Values
from twinlens.planning.prediction.place import Layout, Rates
from twinlens.planning.prediction.step_time import decode_step, prefill, sharing
from twinlens.planning.prediction.work import Work
from twinlens.theory.number import Number

_ROUNDS = 12
ROOM_FOR_TWO = 2.0
_FELT_SHARE = 0.2
"""Least share of another's prefill that a step feels, however much they have in common: taken without a source."""


@dataclass(frozen=True, slots=True)
class Served:
    """A serving system in equilibrium; times in seconds."""

    tpot_s: Number
    prefill_s: Number
    wait_s: Number
    """Before the prefill: others' prefills, a step under way, and a place in the batch."""
    batch: Number
    """Sequences that decode at a time."""
    requests_per_s: Number
    most: Number
    """Sequences that the cache has room for."""

    @property
    def ttft_s(self) -> Number:
        return self.prefill_s + self.wait_s


def closed_loop(
    work: Work,
    rates: Rates,
    layout: Layout,
    fitted: Values,
    users: Number,
    prompt: Number,
    answer: Number,
    most: Number,
) -> Served:
    """`users` who each wait for an answer and ask again at once; the cache has room for `most` of them."""
    context = prompt + answer / 2.0
    most = np.maximum(most, 1.0)
    alone = _prefill_s(work, rates, layout, fitted, prompt)
    there = np.minimum(users, most) * 1.0
    batch = there
    added_s = interference(work, rates, layout, fitted, prompt)
    for _ in range(_ROUNDS):
        step = decode_step(work, rates, layout, fitted, batch, context).total_s
        extra = added_s(batch, batch / answer)
        met = others(there) * batch / np.maximum(there, 1.0)  # each of them decodes for the same share of the time
        tpot = step + met / answer * extra
        spent = answer * tpot
        burst = fitted.burst * others(there) * extra
        first = alone + burst + step / 2.0 + fitted.arrive_s
        batch = 0.5 * batch + 0.5 * there * spent / (spent + first)
    served = there / (spent + first)
    waits = np.maximum(users - most, 0.0) / served
    return Served(tpot, alone, first - alone + waits, batch, served, most)


def open_loop(
    work: Work,
    rates: Rates,
    layout: Layout,
    fitted: Values,
    requests_per_s: Number,
    prompt: Number,
    answer: Number,
    most: Number,
) -> Served:
    """Requests that arrive at random, `requests_per_s` on average.

    A request finds those that are there on average (Poisson arrivals) and itself. With an affine step c0 + c1·B and no
    prefill this is the processor-sharing queue: E[T] = m·(c0 + c1) / (1 − λ·m·c1). A cache with room for one sequence
    serves one at a time: M/D/1, whose wait is S·ρ / (2·(1 − ρ)).
    """
    context = prompt + answer / 2.0
    most = np.maximum(most, 1.0)
    alone = _prefill_s(work, rates, layout, fitted, prompt)

    interfering_s = interference(work, rates, layout, fitted, prompt)

    def added_s(there: Number) -> Number:
        return interfering_s(there + 1.0, 1.0)

    def per_token(there: Number) -> Number:
        step = decode_step(work, rates, layout, fitted, there + 1.0, context).total_s
        extra = added_s(there)
        return step + requests_per_s * extra * step / np.maximum(1.0 - requests_per_s * extra, 1e-9)

    tpot, there = processor_sharing(per_token, requests_per_s, answer, most)
    extra = added_s(there)
    busy = np.minimum(requests_per_s * extra, 1.0)
    wait = extra * busy / (2.0 * np.maximum(1.0 - busy, 1e-9)) + tpot / 2.0 + fitted.arrive_s
    step = decode_step(work, rates, layout, fitted, 1.0, context).total_s
    taken = alone + answer * step
    used = requests_per_s * taken
    queue = taken * used / (2.0 * np.maximum(1.0 - used, 1e-9)) + step / 2.0 + fitted.arrive_s
    is_one = most < ROOM_FOR_TWO
    full = np.where(is_one, used >= 1.0, there + 1.0 > most)
    tpot, wait = np.where(is_one, step, tpot), np.where(is_one, queue, wait)
    there = np.where(is_one, requests_per_s * answer * step, there)
    return Served(np.where(full, np.inf, tpot), alone, np.where(full, np.inf, wait), there, requests_per_s, most)


def disaggregated(
    work: Work,
    rates: Rates,
    first: Layout,
    first_workers: Number,
    layout: Layout,
    workers: Number,
    fitted: Values,
    users: Number,
    prompt: Number,
    answer: Number,
    most: Number,
) -> Served:
    """`users` in a closed loop on workers that only prefill (`first`) and workers that only decode (`layout`).

    Decoding is not interrupted; where prefill is the slower half, requests wait before it. `most`: sequences that one
    decoding worker has room for.
    """
    most = np.maximum(most * workers, 1.0)
    there = np.minimum(users, most)
    alone = _prefill_s(work, rates, first, fitted, prompt)
    extra = alone / (first.data * first.pipeline * first_workers)
    batch = there * 1.0
    for _ in range(_ROUNDS):
        tpot = decode_step(work, rates, layout, fitted, batch / workers, prompt + answer / 2.0).total_s
        spent = answer * tpot
        queue = np.maximum(fitted.burst * (there - 1.0) * extra, there * extra - spent - alone)
        start = alone + np.maximum(queue, 0.0) + tpot + fitted.arrive_s
        batch = 0.5 * batch + 0.5 * there * spent / (spent + start)
    served = there / (spent + start)
    return Served(tpot, alone, start - alone + np.maximum(users - most, 0.0) / served, batch, served, most)


def tokens_per_s(
    work: Work, rates: Rates, layout: Layout, fitted: Values, batch: Number, prompt: Number, answer: Number
) -> tuple[Number, Number]:
    """Answer tokens per second of one copy that always decodes `batch` sequences, and seconds between two of one."""
    extra = interference(work, rates, layout, fitted, prompt)(batch, batch / answer)
    step = decode_step(work, rates, layout, fitted, batch, prompt + answer / 2.0).total_s
    tpot = step + others(batch) / answer * extra
    return fitted.saturation * batch / tpot, tpot


def others(batch: Number) -> Number:
    """Sequences whose prompts disturb one of a batch: all but itself."""
    return np.maximum(batch - 1.0, 0.0)


def processor_sharing(
    per_token: Callable[[Number], Number], rate: Number, answer: Number, most: Number
) -> tuple[Number, Number]:
    """The step time and the number of others in equilibrium: N = rate · answer · per_token(N), by bisection.

    A single question is cut into 128 parts at a time, which cost little more than one number.

    Above `most` there is none: the smallest N that would do is then returned as `most`.
    """
    low, high = (
        np.zeros_like(np.asarray(rate, dtype=float) * answer * most),
        np.asarray(most + 0.0 * rate * answer, dtype=float),
    )
    high = high + 0.0 * low
    if np.ndim(per_token(high)) == 0:
        for _ in range(8):
            parts = np.linspace(low, high, 129)
            enough = rate * answer * per_token(parts[1:-1]) < parts[1:-1]
            first = int(np.argmax(enough)) + 1 if enough.any() else 128
            low, high = parts[first - 1], parts[first]
        return per_token(high), high
    for _ in range(60):
        middle = (low + high) / 2.0
        above = rate * answer * per_token(middle) < middle
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return per_token(high), high


def static_batch_s(
    work: Work,
    rates: Rates,
    layout: Layout,
    fitted: Values,
    batch: Number,
    prompt: Number,
    answer: Number,
    most: Number,
) -> Number:
    """Seconds from the first prompt to the last token of a batch that starts and ends together."""
    most = np.maximum(np.floor(most), 1.0)
    waves = np.maximum(batch / most, 1.0)
    each = batch / waves
    first = prefill(work, rates, layout, fitted, each * prompt / layout.data, prompt).total_s
    step = decode_step(work, rates, layout, fitted, each, prompt + answer / 2.0).total_s
    return waves * (first + answer * step)


def _prefill_s(work: Work, rates: Rates, layout: Layout, fitted: Values, prompt: Number) -> Number:
    return prefill(work, rates, layout, fitted, prompt, prompt).total_s


def interference(
    work: Work, rates: Rates, layout: Layout, fitted: Values, prompt: Number
) -> Callable[[Number, Number], Number]:
    """Seconds that one prompt adds to the steps of the others, by their number (`batch`) and by `per_step`.

    It is the pass of the prompt, less what it shares with a step of `batch`. `per_step`: prompts that come in one step;
    the step shares its reads once, however many those are.
    """
    alone = _prefill_s(work, rates, layout, fitted, prompt)
    saved_s = sharing(work, rates, layout, fitted, prompt)

    def added_s(batch: Number, per_step: Number) -> Number:
        shared = fitted.mixed * saved_s(batch) / np.maximum(per_step, 1.0)
        return np.maximum(alone - shared, _FELT_SHARE * alone) * fitted.interfere / (layout.data * layout.pipeline)

    return added_s


# Tails of latency: what 99 of 100 requests stay below, from the queue that gives the means.
#
# Prompts and answers of one length each: lengths that vary make tails longer, and no public measurement holds them.

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
    extra = float(np.ravel(interference(work, rates, layout, fitted, prompt)(served.batch + 1.0, 1.0))[0])
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
    extra = float(np.ravel(interference(work, rates, layout, fitted, prompt)(there, there / answer))[0])
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
