"""Shared prefixes: what is expected of them by hand, and that what is drawn agrees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from twinlens.schedule.conversation import session_requests
from twinlens.schedule.draw import (
    expected_hit_share,
    mean_length,
    prefix_probabilities,
    single_requests,
)
from twinlens.schedule.plan import Plan
from twinlens.schedule.trace_file import BLOCK_TOKENS, read_trace
from twinlens.spec.workload.arrival import Trace
from twinlens.spec.workload.length import Fixed, Lognormal
from twinlens.spec.workload.prompt import Prefix, Sessions
from twinlens.spec.workload.workload import InferenceWorkload

SPREAD = Lognormal(kind="lognormal", mean=200.0, cv=1.0, max=2000)


def planned(count: int, seed: int = 1, **fields: object):
    workload = InferenceWorkload(kind="inference", model="tiny", **fields)  # type: ignore[arg-type]
    return single_requests(workload, np.zeros(count, dtype=np.int64), seed=seed, prompt_seed=2)


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


def test_zipf_gives_the_second_half_of_what_the_first_gets() -> None:
    assert prefix_probabilities(Prefix(tokens=1, count=3, choice="zipf")) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert prefix_probabilities(Prefix(tokens=1, count=4)) == pytest.approx([0.25] * 4)


def test_the_share_of_prefix_tokens_is_that_of_what_is_drawn() -> None:
    prefix = Prefix(tokens=150, count=5, choice="zipf", share=0.7)
    plan = planned(50_000, input_tokens=SPREAD, prefix=prefix)
    assert plan.prefix_tokens is not None
    seen = plan.prefix_tokens.sum() / plan.input_tokens.sum()
    shared = 0.7 * 150
    assert seen == pytest.approx(shared / (shared + mean_length(SPREAD)), abs=0.005)
    ids = plan.prefix_id[plan.prefix_id >= 0]  # type: ignore[index]
    assert np.bincount(ids) / len(ids) == pytest.approx(prefix_probabilities(prefix), abs=0.01)


def test_expected_hits_by_hand() -> None:
    # One prefix that everyone has: all but the first of four hit, 3 × 100 of 4 × 200 tokens.
    assert expected_hit_share(Prefix(tokens=100), Fixed(value=100), 4) == pytest.approx(3 / 8)
    # Two prefixes, two requests: the second hits in half of the cases, 0.5 × 100 of 2 × 200 tokens.
    assert expected_hit_share(Prefix(tokens=100, count=2), Fixed(value=100), 2) == pytest.approx(1 / 8)
    assert expected_hit_share(Prefix(tokens=100, share=0.0), Fixed(value=100), 9) == 0


@pytest.mark.parametrize("choice", ["uniform", "zipf"])
def test_expected_hits_are_those_of_what_is_drawn(choice: str) -> None:
    prefix = Prefix(tokens=80, count=40, choice=choice, share=0.8)  # type: ignore[arg-type]
    shares = []
    for seed in range(60):
        plan = planned(100, seed, input_tokens=Fixed(value=20), prefix=prefix)
        shares.append(reusable_tokens(plan).sum() / plan.input_tokens.sum())
    sure = 5 * np.std(shares) / np.sqrt(60)
    assert np.mean(shares) == pytest.approx(expected_hit_share(prefix, Fixed(value=20), 100), abs=sure)


def test_requests_without_prefixes_reuse_nothing() -> None:
    assert reusable_tokens(planned(10)).tolist() == [0] * 10


def test_a_later_turn_may_reuse_the_prompt_before_it() -> None:
    workload = InferenceWorkload(
        kind="inference",
        model="tiny",
        input_tokens=Fixed(value=10),
        output_tokens=Fixed(value=5),
        prefix=Prefix(tokens=100),
        sessions=Sessions(turns=Fixed(value=3)),
    )
    plan = session_requests(workload, np.zeros(2, dtype=np.int64), seed=1, prompt_seed=2)
    assert plan.input_tokens.tolist() == [110, 125, 140, 110, 125, 140]
    assert reusable_tokens(plan).tolist() == [0, 110, 125, 100, 110, 125]


def test_a_trace_reuses_the_blocks_that_lead_and_were_seen() -> None:
    path = Path(__file__).parents[1] / "vectors" / "traces" / "mooncake.jsonl"
    plan = read_trace(Trace(path=str(path), format="mooncake"), 60.0, prompt_seed=3).plan
    assert reusable_tokens(plan).tolist() == [0, 1024, 0]
