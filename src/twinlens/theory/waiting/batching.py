"""Servers that take requests together, with steps of fixed + rows × row seconds: mean times at a steady rate."""

from __future__ import annotations

import math


def continuous_time(rate_per_s: float, tokens: float, fixed_s: float, row_s: float) -> float:
    """Mean seconds of a request under continuous batching: m(c0 + c1)/(1 − λ·m·c1), whatever the lengths' distribution.

    With room for all, no cost of context, and prompts that cost as much as one token. `tokens`: mean of an answer.
    Infinite from the rate on at which rows alone fill all time. Source: birth and death at n/(c0 + c1·n) a second, and
    Kelly's insensitivity of processor sharing (Kelly 1979, 3.3).
    """
    left = 1 - rate_per_s * tokens * row_s
    return tokens * (fixed_s + row_s) / left if left > 0 else math.inf


def continuous_tpot(rate_per_s: float, tokens: float, fixed_s: float, row_s: float) -> float:
    """Mean seconds of each token of an answer, under the same conditions."""
    return continuous_time(rate_per_s, tokens, fixed_s, row_s) / tokens


def dynamic_time(rate_per_s: float, fixed_s: float, row_s: float) -> float:
    """Mean seconds of a request where each batch takes all that wait: the tight bound of Inoue, φ1, for its busy half.

    A batch of b lasts fixed + b × row seconds. Infinite from the rate on at which rows alone fill all time.
    Source: Inoue 2021 (arXiv 1912.06322), theorem 2.
    """
    load = rate_per_s * row_s
    if load >= 1:
        return math.inf
    return 1.5 * fixed_s / (1 - load) + row_s / 2 * (load + 2) / (1 - load * load)
