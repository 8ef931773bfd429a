"""A synthetic language whose entropy rate is known exactly: a first-order Markov source with Zipf-like symbols.

Every state has the same list of successor probabilities, p_k ∝ (k+1)^-exponent for k < branches, and its own distinct
successors. The entropy of the next symbol given the last is therefore the same in every state, and the entropy rate
of the source is exactly H(p), whatever the stationary distribution is (Shannon 1948, section 7: the average over
states of their entropies). Frequent symbols are drawn as successors more often, so symbol counts are Zipf-like too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Rejection is quick while a row takes few of the symbols there are; beyond, the frequent ones repeat for ever.
_FEW = 64


@dataclass(frozen=True)
class Language:
    """`successors`: (symbols, branches) int64. `probabilities`: (branches,), falling, summing to 1."""

    successors: np.ndarray
    probabilities: np.ndarray

    @property
    def entropy_rate_nats(self) -> float:
        """Nats per symbol: no model's expected loss can be lower."""
        return float(-(self.probabilities * np.log(self.probabilities)).sum())

    def sample(self, rng: np.random.Generator, sequences: int, length: int) -> np.ndarray:
        """Sequences of the source, shape (sequences, length), int64. First symbols are uniform."""
        symbols = len(self.successors)
        edges = np.cumsum(self.probabilities)[:-1]
        branch = np.searchsorted(edges, rng.random((length, sequences)), side="right")
        text = np.empty((length, sequences), dtype=np.int64)
        text[0] = rng.integers(0, symbols, sequences)
        flat, width = self.successors.ravel(), self.successors.shape[1]
        for position in range(1, length):
            np.take(flat, text[position - 1] * width + branch[position], out=text[position])
        return np.ascontiguousarray(text.T)


def language(symbols: int, branches: int, exponent: float, seed: int) -> Language:
    """The source with the given parameters; `branches` is at most `symbols`. Deterministic in `seed`."""
    branches = min(branches, symbols)
    weights = np.arange(1, branches + 1, dtype=float) ** -exponent
    rng = np.random.default_rng([seed, symbols, branches])
    log_weight = -np.log(np.arange(1, symbols + 1, dtype=float))
    if branches * _FEW > symbols:
        return Language(_by_gumbel(rng, log_weight, branches), weights / weights.sum())
    return Language(_by_rejection(rng, np.cumsum(np.exp(log_weight)), branches), weights / weights.sum())


def _by_rejection(rng: np.random.Generator, mass: np.ndarray, branches: int) -> np.ndarray:
    """Distinct successors of every symbol: each is drawn by weight, and again while it repeats one of its row.

    The set is that of the first distinct draws of one endless series, so that of drawing without replacement.
    """
    edges = mass[:-1]  # so that rounding up to the whole mass is still the last symbol
    successors = np.searchsorted(edges, rng.random((mass.size, branches)) * mass[-1], side="right")
    while True:
        order = np.argsort(successors, axis=1, kind="stable")
        ranked = np.take_along_axis(successors, order, axis=1)
        repeated = np.zeros(successors.shape, dtype=bool)
        np.put_along_axis(repeated, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
        if not repeated.any():
            return np.asarray(successors)
        successors[repeated] = np.searchsorted(edges, rng.random(int(repeated.sum())) * mass[-1], side="right")


def _by_gumbel(rng: np.random.Generator, log_weight: np.ndarray, branches: int) -> np.ndarray:
    """The same where rejection would rarely end: the largest weights with Gumbel noise, in blocks to bound memory."""
    symbols = log_weight.size
    blocks = [
        np.argsort(-(log_weight + rng.gumbel(size=(min(1024, symbols - first), symbols))), axis=1)[:, :branches]
        for first in range(0, symbols, 1024)
    ]
    return np.concatenate(blocks)
