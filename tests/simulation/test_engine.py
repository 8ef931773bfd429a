"""The step loop: rules of the engine on work small enough to be followed by hand, and laws of conservation on any."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.workloads import laws, noises, rules_for, work_of, works

from twinlens.errors import BadInput
from twinlens.simulation.engine import Engine
from twinlens.simulation.law import Affine, StepLaw, one
from twinlens.simulation.noise import Noise
from twinlens.simulation.outcome import conserved
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import DONE, REFUSED, UNFINISHED, token_times_s

SECOND = one(1.0)
"""Every step takes a second."""


def test_one_request_takes_a_step_for_its_prompt_and_one_for_each_further_token() -> None:
    served = serve(work_of([2.0], [10], [4]), SECOND, Rules())
    assert token_times_s(served, 0).tolist() == [3.0, 4.0, 5.0, 6.0]
    assert (served.start_s[0], served.first_token_s[0], served.end_s[0]) == (2.0, 3.0, 6.0)


def test_a_request_that_arrives_within_a_step_joins_the_next_one() -> None:
    served = serve(work_of([0.0, 0.5], [1, 1], [3, 3]), SECOND, Rules())
    assert token_times_s(served, 1).tolist() == [2.0, 3.0, 4.0]


def test_the_law_is_asked_for_rows_context_tokens_and_pairs() -> None:
    law = one(1.0, row_s=0.1, context_s=0.01, token_s=0.001, pair_s=0.0001)
    served = serve(work_of([0.0], [4], [3]), law, Rules())
    prompt_s = 1 + 0.1 + 3 * 0.001 + 10 * 0.0001
    assert token_times_s(served, 0) == pytest.approx([prompt_s, prompt_s + 1.15, prompt_s + 1.15 + 1.16])


def test_the_slowest_part_of_the_law_decides() -> None:
    law = StepLaw((Affine(1.0), Affine(0.0, row_s=0.6)))
    served = serve(work_of([0.0, 0.0], [1, 1], [1, 3]), law, Rules())
    assert token_times_s(served, 1) == pytest.approx([1.2, 2.2, 3.2])


def test_a_long_prompt_is_taken_in_pieces_within_the_budget_beside_those_that_decode() -> None:
    served = serve(work_of([0.0, 0.5], [1, 9], [9, 1]), SECOND, Rules(max_num_batched_tokens=4))
    assert served.first_token_s[1] == 4.0  # pieces of 3, 3 and 3 in the steps that end at 2, 3 and 4


def test_a_threshold_lets_a_short_prompt_start_beside_a_long_one() -> None:
    rules = Rules(max_num_batched_tokens=8, long_prefill_token_threshold=4)
    served = serve(work_of([0.0, 0.0], [12, 3], [1, 1]), SECOND, rules)
    assert served.first_token_s.tolist() == [3.0, 1.0]
    served = serve(work_of([0.0, 0.0], [12, 3], [1, 1]), SECOND, Rules(max_num_batched_tokens=8))
    assert served.first_token_s.tolist() == [2.0, 2.0]


def test_without_chunks_a_prompt_that_the_budget_does_not_hold_blocks_the_queue() -> None:
    rules = Rules(max_num_batched_tokens=8, enable_chunked_prefill=False)
    served = serve(work_of([0.0, 0.5, 0.5], [1, 8, 1], [3, 1, 1]), SECOND, rules)
    assert served.first_token_s.tolist() == [1.0, 4.0, 5.0]


def test_no_more_requests_run_than_there_are_places() -> None:
    served = serve(work_of([0.0, 0.0, 0.0], [1, 1, 1], [2, 2, 2]), SECOND, Rules(max_num_seqs=2))
    assert served.start_s.tolist() == [0.0, 0.0, 2.0]


def test_the_last_request_is_preempted_where_no_block_is_free_and_starts_again_over_prompt_and_answer() -> None:
    rules = Rules(num_gpu_blocks=4, block_size=2)
    served = serve(work_of([0.0, 0.0], [2, 2], [6, 6]), one(1.0, token_s=0.01), rules)
    assert served.preemptions.tolist() == [0, 1]
    # Each has 2 blocks with its third token; the fifth place needs a third block: request 1 has 3 tokens then, leaves,
    # waits until request 0 is done with the sixth step, and computes 2 + 3 tokens again for its fourth.
    assert token_times_s(served, 0) == pytest.approx([1.02, 2.02, 3.02, 4.02, 5.02, 6.02])
    assert token_times_s(served, 1) == pytest.approx([1.02, 2.02, 3.02, 7.06, 8.06, 9.06])


def test_the_least_urgent_request_is_preempted_where_priority_decides() -> None:
    rules = Rules(num_gpu_blocks=4, block_size=2, scheduling_policy="priority")
    served = serve(work_of([0.0, 0.0], [2, 2], [6, 6], priority=[5, 1]), SECOND, rules)
    assert served.preemptions.tolist() == [1, 0]
    assert served.end_s[1] < served.end_s[0]


def test_the_most_urgent_request_starts_first() -> None:
    rules = Rules(max_num_seqs=1, scheduling_policy="priority")
    served = serve(work_of([0.0, 0.1, 0.1], [1, 1, 1], [2, 2, 2], priority=[0, 3, 1]), SECOND, rules)
    assert served.start_s.tolist() == [0.0, 4.0, 2.0]


def test_a_whole_prompt_is_reserved_or_only_its_first_piece() -> None:
    work = work_of([0.0, 0.0], [4, 8], [3, 1])
    rules = Rules(max_num_batched_tokens=6, num_gpu_blocks=5, block_size=2)
    assert serve(work, SECOND, rules).start_s.tolist() == [0.0, 3.0]
    eager = dataclasses.replace(rules, scheduler_reserve_full_isl=False)
    assert serve(work, SECOND, eager).start_s.tolist() == [0.0, 0.0]


def test_a_prefix_that_was_computed_is_found_again_in_full_blocks_but_never_the_whole_prompt() -> None:
    rules = Rules(enable_prefix_caching=True, block_size=4)
    work = work_of([0.0, 9.0, 9.0], [8, 8, 11], [1, 1, 1], group=[0, 0, 0], shared_tokens=[8, 8, 8])
    assert serve(work, SECOND, rules).cached_tokens.tolist() == [0, 4, 8]


def test_the_prefix_that_was_unused_for_longest_is_evicted_its_last_block_first() -> None:
    rules = Rules(enable_prefix_caching=True, block_size=4, num_gpu_blocks=5)
    prompts, groups = [9, 9, 9], [0, -1, 0]
    work = work_of([0.0, 5.0, 9.0], prompts, [1, 1, 1], group=groups, shared_tokens=[8, 0, 8])
    # Request 0 used blocks 0 to 2, request 1 the fresh 3 and 4, and the partial last block of request 0.
    assert serve(work, SECOND, rules).cached_tokens.tolist() == [0, 0, 8]
    tight = dataclasses.replace(rules, num_gpu_blocks=4)
    assert serve(work, SECOND, tight).cached_tokens.tolist() == [0, 0, 4]


def test_accepted_drafts_shorten_an_answer_and_every_draft_is_paid_for() -> None:
    rules = Rules(num_speculative_tokens=2, acceptance_rate=1.0)
    served = serve(work_of([0.0], [1], [7]), one(1.0, token_s=0.1), rules)
    assert token_times_s(served, 0) == pytest.approx([1.0, 2.2, 2.2, 2.2, 3.4, 3.4, 3.4])


def test_a_window_bounds_context_and_blocks() -> None:
    rules = Rules(sliding_window=4, block_size=2, num_gpu_blocks=6, max_num_batched_tokens=2)
    served = serve(work_of([0.0], [6], [30]), one(1.0, context_s=1.0), rules)
    assert np.diff(token_times_s(served, 0)) == pytest.approx([5.0] * 29)


def test_a_request_longer_than_the_context_is_refused_and_the_others_run() -> None:
    served = serve(work_of([0.0, 0.0], [10, 90], [5, 20]), SECOND, Rules(max_model_len=100))
    assert served.outcome.tolist() == [DONE, REFUSED]


def test_a_static_batch_waits_until_it_is_full_and_runs_to_its_longest_answer() -> None:
    rules = Rules(batching="static", batch_size=2)
    served = serve(work_of([0.0, 3.0, 3.5], [1, 1, 1], [1, 3, 1]), one(1.0, row_s=0.1), rules)
    assert served.start_s == pytest.approx([3.0, 3.0, 6.6])
    assert served.end_s == pytest.approx([4.2, 6.6, 7.7])


def test_prompts_of_a_batch_are_padded_to_the_longest() -> None:
    rules = Rules(batching="static", batch_size=2)
    served = serve(work_of([0.0, 0.0], [2, 11], [1, 1]), one(1.0, token_s=0.1), rules)
    assert served.end_s == pytest.approx([3.0, 3.0])


def test_a_dynamic_batch_waits_no_longer_than_its_first_request_may() -> None:
    rules = Rules(batching="dynamic", batch_size=3, batch_wait_s=2.0)
    served = serve(work_of([0.0, 1.0, 2.5, 3.5, 3.6], [1] * 5, [2] * 5), SECOND, rules)
    assert served.start_s == pytest.approx([2.0, 2.0, 4.0, 4.0, 4.0])


def test_a_horizon_leaves_requests_unfinished_and_keeps_what_they_had() -> None:
    served = serve(work_of([0.0, 0.0, 9.0], [1, 1, 1], [2, 5, 1]), SECOND, Rules(), horizon_s=3.0)
    assert served.outcome.tolist() == [DONE, UNFINISHED, UNFINISHED]
    assert served.first_token_s[1] == 1.0
    assert np.isnan(served.end_s[1])
    assert np.isnan(served.start_s[2])


def test_noise_multiplies_steps_in_blocks_as_they_were_measured() -> None:
    noise = Noise(np.array([1.0, 2.0, 4.0]), seed=3, block=3)
    steps = np.diff(token_times_s(serve(work_of([0.0], [1], [31]), SECOND, Rules(), noise=noise), 0))
    following = dict(zip([1.0, 2.0, 4.0], [2.0, 4.0, 1.0], strict=True))
    kept = [following[first] == second for first, second in itertools.pairwise(steps)]
    assert set(steps) == {1.0, 2.0, 4.0}
    assert np.mean(kept) > 0.6


def test_an_engine_says_at_any_time_who_waits_and_what_is_left_to_do() -> None:
    engine = Engine(Rules(max_num_seqs=1, num_gpu_blocks=10, block_size=4), SECOND)
    engine.add(0.0, 5, 3)
    engine.add(0.0, 2, 2)
    assert engine.outstanding_tokens == 12
    engine.run_until(0.5)
    assert (len(engine.running), len(engine.waiting), engine.now_s) == (1, 1, 1.0)
    assert (engine.cache.free, engine.outstanding_tokens) == (8, 6)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens is 0"),
        ({"num_gpu_blocks": 0}, "num_gpu_blocks is 0"),
        ({"acceptance_rate": 1.5}, "acceptance_rate is 1.5"),
        ({"batch_wait_s": float("nan")}, "batch_wait_s is nan"),
        ({"num_gpu_blocks": 2}, "request 0 .* needs 3 blocks"),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 30}, "compute 40 tokens in one step"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused_in_one_sentence(change: dict[str, float], word: str) -> None:
    with pytest.raises(BadInput, match=word):
        serve(work_of([0.0], [40], [5]), SECOND, dataclasses.replace(Rules(), **change))


@pytest.mark.parametrize(
    ("law", "word"),
    [
        (one(-1.0), "fixed_s of the step law is -1.0"),
        (one(1.0, pair_s=float("nan")), "pair_s of the step law is nan"),
        (one(0.0), "no time"),
        (StepLaw(()), "no part"),
        (StepLaw((Affine(1.0),), before_s=float("inf")), "before_s of the step law is inf"),
    ],
)
def test_a_law_without_sense_is_refused_in_one_sentence(law: StepLaw, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        serve(work_of([0.0], [4], [5]), law, Rules())


@pytest.mark.parametrize(
    ("arrival_s", "prompt", "output", "word"),
    [
        ([0.0, 2.0, 1.0], [1, 1, 1], [1, 1, 1], "request 2 arrives before the one ahead"),
        ([0.0, float("nan"), 1.0], [1, 1, 1], [1, 1, 1], "arrival of request 1 is not a number"),
        ([-1.0, 0.0, 1.0], [1, 1, 1], [1, 1, 1], "request 0 arrives at -1 s"),
        ([0.0, 1.0, 2.0], [1, 0, 1], [1, 1, 1], "request 1 .* at least one token"),
        ([0.0, 1.0, 2.0], [1, 1, 1], [1, 1, 0], "request 2 .* at least one token"),
        ([0.0, 1.0, 2.0], [1, 1], [1, 1, 1], "not all as long as its 3 arrivals"),
    ],
)
def test_work_that_cannot_be_served_is_refused_in_one_sentence(
    arrival_s: list[float], prompt: list[int], output: list[int], word: str
) -> None:
    with pytest.raises(BadInput, match=word):
        serve(work_of(arrival_s, prompt, output), SECOND, Rules())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_requests_blocks_and_tokens_are_conserved_in_any_run(data: st.DataObject) -> None:
    work = data.draw(works())
    rules = data.draw(rules_for(work))
    law, noise = data.draw(laws()), data.draw(noises())
    served = serve(work, law, rules, noise=noise)
    assert conserved(served)
    assert not np.any(served.outcome == UNFINISHED)
    for each in range(len(work)):
        times = token_times_s(served, each)
        assert len(times) == (work.output_tokens[each] if served.outcome[each] == DONE else 0)
        assert np.all(np.diff(times) >= 0)
        if len(times):
            ends = (served.first_token_s[each], served.end_s[each])
            assert (times[0], times[-1]) == pytest.approx(ends, abs=1e-9, rel=0)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blocks_free_and_used_are_all_after_every_step_and_none_is_kept_at_the_end(data: st.DataObject) -> None:
    work = data.draw(works())
    rules = data.draw(rules_for(work))
    engine = Engine(rules, data.draw(laws()))
    total = engine.cache.free
    for columns in zip(work.prompt_tokens.tolist(), work.output_tokens.tolist(), strict=True):
        engine.add(0.0, *columns)
    engine.close()
    while engine.next_s < np.inf:
        engine.run_until(np.nextafter(engine.next_s, np.inf))
        assert engine.cache.free + engine.cache.used == total
        assert len(engine.running) <= rules.max_num_seqs
    assert engine.cache.used == 0
    assert len(engine.finished) == len(work)
