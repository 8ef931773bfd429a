"""Contents of requests drawn from a seed: lengths and shared prefixes. The n-th is the same however many are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count as counting
from itertools import takewhile

import numpy as np

from twinlens.schedule.plan import NONE, Plan
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.length import AnswerLength, Empirical, Fixed, Free, Length, Lognormal, Uniform
from twinlens.spec.workload.prompt import Embed, Generate, Prefix, Rerank, items_per_request
from twinlens.spec.workload.workload import Images, InferenceWorkload

# Streams of random numbers, one per quantity, so that a change to one leaves the others as they were.
_INPUT, _OUTPUT, _PREFIX = 2, 3, 4
_CHUNK = 1024

Draw = Callable[[np.random.Generator, int], np.ndarray]


def drawn(draw: Draw, seed: int, stream: int, first: int, count: int) -> np.ndarray:
    """Numbers `first` to `first + count` of a stream, shape (count,), int64.

    Each chunk of the stream has a seed of its own, so any stretch can be drawn alone: a run that goes on continues.
    """
    begin, end = first // _CHUNK, -(-(first + count) // _CHUNK)
    chunks = [draw(np.random.default_rng([seed, stream, chunk]), _CHUNK) for chunk in range(begin, end)]
    return np.concatenate([np.empty(0, dtype=np.int64), *chunks])[first - begin * _CHUNK :][:count]


def single_requests(
    workload: InferenceWorkload, intended_ns: np.ndarray, *, seed: int, prompt_seed: int, first: int = 0
) -> Plan:
    """Requests at the given times, shape (asks,); the first of them has number `first`.

    `seed` decides lengths and prefixes, `prompt_seed` the words.
    """
    count = len(intended_ns)
    none = np.zeros(count, dtype=np.int64)
    inputs = none if isinstance(workload.data, Images) else lengths(workload.input_tokens, seed, _INPUT, first, count)
    if isinstance(workload.task, Embed | Rerank):
        inputs = inputs * items_per_request(workload.task)
    if isinstance(workload.task, Rerank):
        inputs = inputs + workload.task.query_tokens
    streams = isinstance(workload.task, Generate) and not isinstance(workload.data, Images)
    outputs = lengths(workload.output_tokens, seed, _OUTPUT, first, count) if streams else none
    plan = Plan(prompt_seed, intended_ns, inputs, outputs, first_number=first)
    return plan if workload.prefix is None else plan.behind(*prefixes(workload.prefix, seed, first, count))


def endless_requests(
    workload: InferenceWorkload, *, seed: int, prompt_seed: int, first: int = 0
) -> Iterator[ScheduledRequest]:
    """Requests without end, for a closed loop, which decides their times itself."""
    for begin in counting(first, _CHUNK):
        yield from single_requests(
            workload, np.zeros(_CHUNK, dtype=np.int64), seed=seed, prompt_seed=prompt_seed, first=begin
        )


def lengths(length: AnswerLength, seed: int, stream: int, first: int, count: int) -> np.ndarray:
    """Numbers `first` to `first + count` of a stream of lengths in tokens, shape (count,)."""
    return drawn(lambda rng, n: sample_lengths(length, rng, n), seed, stream, first, count)


def prefixes(prefix: Prefix, seed: int, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which prefix each opens with (NONE: with none) and its tokens, both of shape (count,)."""
    ids = drawn(lambda rng, n: draw_prefixes(prefix, rng, n), seed, _PREFIX, first, count)
    return ids, np.where(ids >= 0, prefix.tokens, 0)


# Drawing a length from what a spec says about it.


def sample_length(length: AnswerLength, rng: np.random.Generator) -> int:
    """One length in tokens, between 1 and the length's maximum."""
    return int(sample_lengths(length, rng, 1)[0])


def sample_lengths(length: AnswerLength, rng: np.random.Generator, count: int) -> np.ndarray:
    """Independent lengths in tokens, shape (count,), int64, between 1 and the length's maximum; of a free one that."""
    if isinstance(length, Fixed | Free):
        return np.full(count, length.max, dtype=np.int64)
    if isinstance(length, Uniform):
        return rng.integers(length.min, length.max, count, endpoint=True)
    if isinstance(length, Empirical):
        return rng.choice(np.array(length.values, dtype=np.int64), count, p=_shares(length))
    drawn = rng.lognormal(*_law(length), count)
    return np.clip(np.rint(drawn), 1, length.max).astype(np.int64)


def mean_length(length: AnswerLength) -> float:
    """The exact mean of what `sample_lengths` draws, in tokens: rounding and cuts included."""
    if isinstance(length, Fixed | Free):
        return float(length.max)
    if isinstance(length, Uniform):
        return (length.min + length.max) / 2
    if isinstance(length, Empirical):
        return float(np.dot(length.values, _shares(length)))
    mu, sigma = _law(length)
    # The mean of a whole number that is at least 1 is the sum over k of P(N >= k), and N >= k where X > k - 1/2.
    tails = (math.erfc((math.log(k - 0.5) - mu) / (sigma * math.sqrt(2))) / 2 for k in range(2, length.max + 1))
    return 1 + math.fsum(takewhile(bool, tails))  # they only fall: after one that is nothing all are


def _law(length: Lognormal) -> tuple[float, float]:
    """Mean and deviation of the logarithm, so that the untruncated mean and cv are those asked for."""
    sigma_squared = math.log1p(length.cv**2)
    return math.log(length.mean) - sigma_squared / 2, math.sqrt(sigma_squared)


def _shares(length: Empirical) -> np.ndarray:
    counts = np.array(length.counts or (1,) * len(length.values), dtype=float)
    return np.asarray(counts / counts.sum())


def prefix_probabilities(prefix: Prefix) -> np.ndarray:
    """Chance of each prefix among requests that have one. Shape: (count,), summing to 1, falling for Zipf."""
    ranks = np.arange(1, prefix.count + 1, dtype=float)
    weights = ranks**-prefix.exponent if prefix.choice == "zipf" else np.ones(prefix.count)
    return np.asarray(weights / weights.sum())


def draw_prefixes(prefix: Prefix, rng: np.random.Generator, count: int) -> np.ndarray:
    """Ids of prefixes, NONE for those without one. Shape: (count,), int64."""
    ids = rng.choice(prefix.count, count, p=prefix_probabilities(prefix))
    return np.where(rng.random(count) < prefix.share, ids, NONE)


def expected_hit_share(prefix: Prefix, input_tokens: Length, requests: int) -> float:
    """The share of the tokens of so many prompts that a cache which forgets nothing would be expected to hold.

    The first request of each prefix misses: among n requests of which a share s has one, prefix k has been seen by
    1 - (1 - s·p_k)^n on average, so s·n less the sum of these are hits.
    """
    chances = prefix.share * prefix_probabilities(prefix)
    distinct = -np.expm1(requests * np.log1p(-np.minimum(chances, 1 - 1e-16))).sum()
    hits = (prefix.share * requests - distinct) / requests
    return float(hits * prefix.tokens / (prefix.share * prefix.tokens + mean_length(input_tokens)))
