"""Speculative decoding (Leviathan et al., arXiv 2211.17192): tokens per pass and speed-up. Numbers may be arrays."""

from __future__ import annotations

import numpy as np

from twinlens.errors import BadInput
from twinlens.theory.number import Number, amount, is_scalar, rate, share


def expected_tokens(acceptance: Number, drafted: Number) -> Number:
    """Tokens that one pass of the large model yields: (1 − a^(k+1)) / (1 − a), and k + 1 where all are accepted.

    `acceptance`: the share a of drafted tokens that are accepted, each independently. The pass itself adds one token.
    """
    a, k = share("acceptance", acceptance), amount("drafted", drafted)
    if is_scalar(a) and is_scalar(k):
        return k + 1.0 if a == 1 else (1 - a ** (k + 1)) / (1 - a)
    below = np.where(a == 1, 0.5, a)  # never divide by zero
    return np.where(a == 1, k + 1.0, (1 - below ** (k + 1.0)) / (1 - below))


def speed_up(acceptance: Number, drafted: Number, draft_cost: Number, check_cost: Number = 1.0) -> Number:
    """Tokens per second with speculation over those without.

    `draft_cost`: time of one draft token over that of an ordinary step. `check_cost`: time of a pass over k + 1 tokens
    per sequence over that of an ordinary step: 1 while weights bind, up to k + 1 where arithmetic does.
    """
    spent = amount("drafted", drafted) * amount("draft_cost", draft_cost) + rate("check_cost", check_cost)
    return expected_tokens(acceptance, drafted) / spent


def best_drafted(acceptance: float, draft_cost: float, check_cost_each: float = 0.0, most: int = 32) -> int:
    """Draft length with the highest speed-up; 0 where none helps. A check costs 1 + k · `check_cost_each` steps."""
    if most < 1:
        raise BadInput(f"most must be at least 1, not {most}")
    lengths = np.arange(most + 1)
    gains = speed_up(acceptance, lengths, draft_cost, 1 + lengths * amount("check_cost_each", check_cost_each))
    return int(np.argmax(gains))
