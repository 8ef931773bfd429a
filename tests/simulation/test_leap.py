"""Leaps give what the step loop gives, on any work under any rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.workloads import laws, noises, rules_for, works

from twinlens.simulation.leaps.first_come import is_plain
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import Served, Work, all_token_times_s


def same(one: Served, other: Served) -> None:
    """Asserts the same outcome, to 10⁻⁹ s."""
    for name in ("outcome", "preemptions", "cached_tokens"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    for name in ("start_s", "first_token_s", "end_s"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-9, err_msg=name)
    (times, places), (other_times, other_places) = all_token_times_s(one), all_token_times_s(other)
    np.testing.assert_array_equal(places, other_places)
    np.testing.assert_allclose(times, other_times, rtol=0, atol=1e-9)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_leaps_give_what_the_step_loop_gives(data: st.DataObject) -> None:
    work = data.draw(works())
    rules = data.draw(rules_for(work))
    law, noise = data.draw(laws()), data.draw(noises())
    horizon_s = data.draw(st.sampled_from([None, None, 0.5]))
    stepped = serve(work, law, rules, noise=noise, horizon_s=horizon_s, leaps=False)
    same(serve(work, law, rules, noise=noise, horizon_s=horizon_s), stepped)


@settings(max_examples=60, deadline=None)
@given(works(), st.integers(1, 12), st.integers(12, 60), st.booleans(), st.data())
def test_the_plainest_engine_gives_what_the_step_loop_gives(
    work: Work, seats: int, budget: int, alone: bool, data: st.DataObject
) -> None:
    blocks, horizon_s = data.draw(st.sampled_from([None, 10, 100])), data.draw(st.sampled_from([None, 0.3]))
    rules = Rules(max_num_seqs=1 if alone else seats, max_num_batched_tokens=budget, num_gpu_blocks=blocks,
                  enable_prefix_caching=data.draw(st.booleans()), max_model_len=140)  # fmt: skip
    work = replace(work, shared_tokens=np.minimum(work.shared_tokens, rules.block_size - 1))
    law, noise = data.draw(laws()), data.draw(noises())
    assert is_plain(rules, work)
    stepped = serve(work, law, rules, noise=noise, horizon_s=horizon_s, leaps=False)
    same(serve(work, law, rules, noise=noise, horizon_s=horizon_s), stepped)
