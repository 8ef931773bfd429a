"""Amounts of work: pairs of tokens that attention computes, decode steps of an answer with drafts."""

from __future__ import annotations

import numpy as np

from twinlens.simulation.rules import Rules


def pairs_of(computed: int, tokens: int, window: int | None) -> float:
    """Pairs of each of the next tokens of a prompt with each token that it attends to, itself among them."""
    if window is None or computed + tokens <= window:
        return tokens * computed + tokens * (tokens + 1) / 2
    below = max(0, window - computed)
    return below * computed + below * (below + 1) / 2 + (tokens - below) * window


def decode_steps(output: int, rules: Rules, generator: np.random.Generator) -> int:
    """Decode steps of an answer of so many tokens, its first token aside: drawn once, when the request arrives.

    Each step gives one token and the drafts before the first one that does not hold.
    """
    drafts, acceptance, left = rules.num_speculative_tokens, rules.acceptance_rate, output - 1
    if left <= 0 or not drafts or acceptance == 0:
        return max(0, left)
    if acceptance == 1:
        return -(-left // (drafts + 1))
    given = np.minimum(generator.geometric(1 - acceptance, left), drafts + 1)
    return int(np.searchsorted(np.cumsum(given), left)) + 1
