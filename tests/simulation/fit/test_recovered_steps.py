"""Engine steps are recovered from the times at which a client got its tokens."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.simulator.engine_rows import rows

from served_rows import columns, row
from twinlens.simulation.fit.steps import recover
from twinlens.simulation.law import Affine, StepLaw, one
from twinlens.simulation.rules import Rules

LAW = StepLaw((Affine(7e-3, 3e-4, 2e-6, 1e-4),), before_s=4e-3, after_s=1e-3)


def test_tokens_that_arrive_together_are_one_step() -> None:
    # A decodes alone, B's prompt of 10 tokens is computed with A's third token, both decode, A ends, B goes on.
    first = row(0, [10, 20, 32, 44], input_tokens=5)
    second = row(12, [32.05, 44.05, 54], input_tokens=10)
    steps = recover(columns([first, second]), Rules())
    assert np.allclose(steps.end_s, [0.010, 0.020, 0.032, 0.044, 0.054])
    assert np.allclose(steps.duration_s[1:], [0.010, 0.012, 0.012, 0.010])
    assert np.isnan(steps.duration_s[0])
    assert steps.rows.tolist() == [1, 1, 2, 2, 1]
    assert steps.context.tolist() == [0, 6, 7, 8 + 11, 12]
    assert steps.tokens.tolist() == [4, 0, 9, 0, 0]
    assert steps.pairs.tolist() == [15, 0, 55, 0, 0]
    assert steps.first_step.tolist() == [0, 2]
    assert steps.found_idle.tolist() == [True, False]
    assert steps.contradicted == 0


def test_no_step_is_timed_across_an_idle_engine() -> None:
    steps = recover(columns([row(0, [10, 20, 30]), row(100, [112, 122, 132])]), Rules())
    assert np.isfinite(steps.duration_s).tolist() == [False, True, True, False, True, True]
    assert steps.found_idle.all()


def test_a_prompt_longer_than_the_budget_is_computed_in_pieces_beside_who_decodes() -> None:
    # Budget 100: 99 of 250 tokens beside the decoder in two steps, 52 in the third, whose end gives the first token.
    decoder = row(0, [10, 20, 30, 40, 50], input_tokens=5)
    long = row(8, [40.05, 50.05], input_tokens=250)
    steps = recover(columns([decoder, long]), Rules(max_num_batched_tokens=100))
    assert steps.tokens.tolist() == [4, 98, 98, 51, 0]
    assert steps.pairs.tolist() == [15, 99 * 50, 99 * 99 + 99 * 50, 198 * 52 + 52 * 53 / 2, 0]
    assert steps.rows.tolist() == [1, 2, 2, 2, 2]


def test_pieces_before_any_visible_step_are_in_none() -> None:
    steps = recover(columns([row(0, [40, 50], input_tokens=250)]), Rules(max_num_batched_tokens=100))
    assert steps.tokens.tolist() == [49, 0]
    assert steps.pairs.tolist() == [200 * 50 + 50 * 51 / 2, 0]


def test_a_chunk_of_two_tokens_stands_for_two_steps_where_others_had_two() -> None:
    # The server sent B's tokens of the steps at 30 and 40 ms together.
    alone, merged = row(0, [10, 20, 30, 40, 50], input_tokens=5), row(11, [20.05, 40.05, 50.05], tokens=(1, 2, 1))
    steps = recover(columns([alone, merged]), Rules())
    assert steps.rows.tolist() == [1, 2, 2, 2, 2]
    assert steps.context.tolist() == [0, 6, 7 + 11, 8 + 12, 9 + 13]
    assert (steps.contradicted, steps.tokens_each) == (0, 1)


def test_several_tokens_in_one_step_are_seen() -> None:
    steps = recover(columns([row(0, [10, 20, 30], tokens=(1, 3, 3)), row(1, [10, 20, 30], tokens=(1, 3, 3))]), Rules())
    assert steps.tokens_each == 3


def test_steps_that_leave_no_gap_are_parted_where_a_request_comes_again() -> None:
    # Eight requests whose tokens come 1 ms apart, step after step of 8 ms: the gap between steps is that inside them.
    steps = recover(columns(row(0, [8 * k + i for k in range(1, 11)], input_tokens=5) for i in range(8)), Rules())
    assert len(steps.end_s) == 10
    assert np.allclose(steps.duration_s[1:], 0.008)
    assert steps.contradicted == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_work_of_all_steps_is_that_of_the_engine(seed: int) -> None:
    # By the law that made them, without noise, steps take what their recovered work takes.
    rng = np.random.default_rng(seed)
    arrival_s, rules = np.cumsum(rng.exponential(0.2, 60)), Rules(max_num_batched_tokens=512, max_num_seqs=6)
    requests = rows(arrival_s, rng.integers(20, 900, 60), rng.integers(2, 40, 60), LAW, rules, seed=seed)
    steps = recover(requests, rules, LAW.before_s + LAW.after_s)
    by_law = np.array([LAW.seconds(*work) for work in zip(steps.rows, steps.context, steps.tokens, strict=True)])
    off = np.abs(steps.duration_s / by_law - 1)[np.isfinite(steps.duration_s)]
    assert np.mean(off < 0.03) > 0.98
    assert steps.contradicted < 0.005


def test_two_engines_behind_one_address_contradict_each_other() -> None:
    rng, of_engine = np.random.default_rng(1), []
    for seed in range(2):
        arrival_s = np.cumsum(rng.exponential(0.1, 60))
        made = rows(arrival_s, np.full(60, 64), np.full(60, 60), one(7e-3, 3e-4), cv=0.2, seed=seed)
        chunks = np.split(made.chunk_ns, made.offsets[1:-1])
        of_engine.append([row(due / 1e6, each / 1e6) for due, each in zip(made.sent_ns, chunks, strict=True)])
    both, single = recover(columns(of_engine[0] + of_engine[1]), Rules()), recover(columns(of_engine[0]), Rules())
    assert both.contradicted > 0.05
    assert both.smeared > 0.4
    assert single.contradicted < 0.005
    assert single.smeared < 0.02
