"""A synthetic language whose entropy rate is known exactly: a first-order Markov source with Zipf-like symbols.

Every state has the same list of successor probabilities, p_k ∝ (k+1)^-exponent for k < branches, and its own distinct
successors. The entropy of the next symbol given the last is therefore the same in every state, and the entropy rate
of the source is exactly H(p), whatever the stationary distribution is (Shannon 1948, section 7: the average over
states of their entropies). Frequent symbols are drawn as successors more often, so symbol counts are Zipf-like too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
    # Gumbel top-k draws `branches` distinct successors with Zipf weights, a block of rows at a time to bound memory.
    log_weight = -np.log(np.arange(1, symbols + 1, dtype=float))
    rows = [_distinct(rng, log_weight, min(1024, symbols - first), branches) for first in range(0, symbols, 1024)]
    return Language(np.concatenate(rows), weights / weights.sum())


def _distinct(rng: np.random.Generator, log_weight: np.ndarray, rows: int, branches: int) -> np.ndarray:
    keys = log_weight + rng.gumbel(size=(rows, len(log_weight)))
    if branches == len(log_weight):
        return np.argsort(-keys, axis=1)
    return np.argpartition(-keys, branches - 1, axis=1)[:, :branches]
