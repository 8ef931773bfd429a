"""Shared prefixes: which one a request opens with, and how many prompt tokens a cache could therefore reuse."""

from __future__ import annotations

import numpy as np

from twinlens.schedule.content.length import mean_length
from twinlens.schedule.plan import NONE, Plan
from twinlens.schedule.trace.row import BLOCK_TOKENS
from twinlens.spec.workload.length import Length
from twinlens.spec.workload.prompt import Prefix


def prefix_probabilities(prefix: Prefix) -> np.ndarray:
    """Chance of each prefix among requests that have one. Shape: (count,), summing to 1, falling for Zipf."""
    ranks = np.arange(1, prefix.count + 1, dtype=float)
    weights = ranks**-prefix.exponent if prefix.choice == "zipf" else np.ones(prefix.count)
    return np.asarray(weights / weights.sum())


def draw_prefixes(prefix: Prefix, rng: np.random.Generator, count: int) -> np.ndarray:
    """Ids of prefixes, NONE for those without one. Shape: (count,), int64."""
    ids = rng.choice(prefix.count, count, p=prefix_probabilities(prefix))
    return np.where(rng.random(count) < prefix.share, ids, NONE)


def prefix_token_share(prefix: Prefix, input_tokens: Length) -> float:
    """The expected share of all prompt tokens that stand in shared prefixes, between 0 and 1, for single requests."""
    shared = prefix.share * prefix.tokens
    return shared / (shared + mean_length(input_tokens))


def expected_hit_share(prefix: Prefix, input_tokens: Length, requests: int) -> float:
    """The share of the tokens of so many prompts that a cache which forgets nothing would be expected to hold.

    The first request of each prefix misses: among n requests of which a share s has one, prefix k has been seen by
    1 - (1 - s·p_k)^n on average, so s·n less the sum of these are hits.
    """
    chances = prefix.share * prefix_probabilities(prefix)
    distinct = -np.expm1(requests * np.log1p(-np.minimum(chances, 1 - 1e-16))).sum()
    hits = (prefix.share * requests - distinct) / requests
    return float(hits * prefix.tokens / (prefix.share * prefix.tokens + mean_length(input_tokens)))


def reusable_tokens(plan: Plan) -> np.ndarray:
    """Leading prompt tokens that were in an earlier prompt of the plan. Shape: (asks,), int64.

    What a cache that forgets nothing could reuse at best, if asks come in the plan's order: beside it stands what the
    server says it did reuse. The answers of a session's earlier turns do not count: the prompts hold words of ours in
    their place.
    """
    reusable = np.zeros(len(plan), dtype=np.int64)
    seen_prefixes: set[int] = set()
    seen_blocks: set[int] = set()
    for row, scheduled in enumerate(plan):
        if scheduled.turn:
            reusable[row] = plan.input_tokens[row - 1]
        elif scheduled.prefix_id in seen_prefixes:
            reusable[row] = scheduled.prefix_tokens
        elif scheduled.blocks:
            known = next(
                (i for i, block in enumerate(scheduled.blocks) if block not in seen_blocks), len(scheduled.blocks)
            )
            reusable[row] = min(known * BLOCK_TOKENS, scheduled.input_tokens)
            seen_blocks.update(scheduled.blocks)
        if scheduled.prefix_id is not None:
            seen_prefixes.add(scheduled.prefix_id)
    return reusable
