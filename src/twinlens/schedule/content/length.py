"""Drawing a length from what a spec says about it."""

from __future__ import annotations

import math
from itertools import takewhile

import numpy as np

from twinlens.spec.workload.length import AnswerLength, Empirical, Fixed, Free, Lognormal, Uniform


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
