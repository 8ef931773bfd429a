"""Fleets: routing, age of signals, deaths, cold starts, pools with a link; by hand, and against the step loop."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.test_leap import same
from tests.simulation.workloads import laws, noises, rules_for, work_of, works

from twinlens.errors import BadInput
from twinlens.simulation.fleet import Replica, serve_fleet
from twinlens.simulation.law import one
from twinlens.simulation.outcome import conserved
from twinlens.simulation.pools import Link, carried, serve_pools
from twinlens.simulation.routing import Router, Routing
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import DONE, UNFINISHED, Work, token_times_s

SECOND = Replica(Rules(), one(1.0))
ALONE = Replica(Rules(max_num_seqs=1), one(1.0))
POLICIES = ["random", "round-robin", "two-choices", "shortest-queue", "least-tokens", "prefix"]


def steady(count: int, every_s: float, output: int = 1) -> Work:
    return work_of([each * every_s for each in range(count)], [1] * count, [output] * count)


def test_requests_go_round_in_turn() -> None:
    served = serve_fleet(steady(5, 1.0), [SECOND] * 2, Routing("round-robin"))
    assert served.engine.tolist() == [0, 1, 0, 1, 0]


def test_chance_is_that_of_the_standard_library() -> None:
    router, truth = Router(Routing("random", seed=7)), random.Random(7)
    for count in (1, 3, 16, 1000):
        alive = range(count)
        assert [router.any_of(alive) for _ in range(50)] == [truth.choice(alive) for _ in range(50)]


def test_the_shortest_queue_is_that_of_now_a_step_under_way_counts() -> None:
    work = work_of([0.0, 0.5, 2.5, 2.6], [1] * 4, [5, 1, 1, 1])
    served = serve_fleet(work, [SECOND] * 2, Routing("shortest-queue"))
    assert served.engine.tolist() == [0, 1, 1, 0]


def test_least_tokens_looks_at_what_is_left_and_not_at_how_many_wait() -> None:
    work = work_of([0.0, 0.1, 0.2, 0.3], [1] * 4, [9, 2, 2, 2])
    served = serve_fleet(work, [ALONE] * 2, Routing("least-tokens"))
    assert served.engine.tolist() == [0, 1, 1, 1]


def test_an_old_signal_sends_everything_to_one_replica_until_the_router_looks_again() -> None:
    served = serve_fleet(steady(6, 0.1, 50), [ALONE] * 3, Routing("shortest-queue", signal_age_s=0.3))
    assert served.engine.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_group_stays_where_it_was_until_its_replica_has_too_much_more_than_another() -> None:
    work = work_of([0.0, 0.1, 0.2, 0.3], [1] * 4, [50] * 4, group=[7, 7, 7, 7], shared_tokens=[1] * 4)
    served = serve_fleet(work, [SECOND] * 2, Routing("prefix", most_more=1))
    assert served.engine.tolist() == [0, 0, 1, 1]


def test_a_replica_that_dies_loses_its_requests_to_the_others_and_comes_back_with_an_empty_cache() -> None:
    mortal = Replica(Rules(), one(1.0), dies_s=2.5, down_s=3.0)
    work = work_of([0.0, 0.1, 4.0, 6.0, 6.0], [1] * 5, [4, 1, 1, 1, 1])
    served = serve_fleet(work, [mortal, SECOND], Routing("round-robin"))
    assert served.engine.tolist() == [1, 1, 1, 1, 2]
    assert token_times_s(served, 0).tolist() == pytest.approx([3.5, 4.5, 5.5, 6.5])


def test_a_request_that_arrives_where_no_replica_is_there_waits_for_the_first() -> None:
    late = Replica(Rules(), one(1.0), starts_s=5.0)
    served = serve_fleet(steady(2, 1.0), [late], Routing())
    assert served.start_s.tolist() == [5.0, 5.0]
    assert serve_fleet(steady(2, 1.0), [late], Routing(), horizon_s=4.0).outcome.tolist() == [UNFINISHED] * 2


def test_a_slow_replica_takes_so_many_times_as_long() -> None:
    served = serve_fleet(steady(2, 0.0, 3), [SECOND, Replica(Rules(), one(1.0), slow=1.2)], Routing())
    assert served.end_s == pytest.approx([3.0, 3.6])


def test_two_pools_and_a_link_between_them_make_one_answer() -> None:
    link = Link(bytes_per_token=2.0, bytes_per_s=40.0)
    pooled = serve_pools(work_of([0.0, 0.0], [10, 30], [3, 1]), [SECOND], [SECOND], link, Routing())
    served = pooled.whole
    assert token_times_s(served, 0) == pytest.approx([1.0, 2.5, 3.5])
    assert token_times_s(served, 1) == pytest.approx([1.0])
    assert served.engine.tolist() == [1, 0]
    assert served.outcome.tolist() == [DONE, DONE]
    assert (pooled.going.tolist(), pooled.ready_s.tolist(), pooled.there_s.tolist()) == ([0], [1.0], [1.5])


def test_a_decode_engine_reads_the_cache_that_came_and_computes_no_prompt() -> None:
    law = one(1.0, context_s=0.1, token_s=10.0, pair_s=10.0)
    decode = Replica(Rules(), law)
    for leaps in (True, False):
        served = serve_fleet(steady(1, 0.0, 3), [decode], Routing(), given=True, leaps=leaps)
        assert served.tokens is not None
        (ends_s,) = served.tokens.step_end_s
        assert ends_s == pytest.approx([1.0 + 0.2, 2.0 + 0.5]), "two tokens are read, then three"


def test_transfers_take_the_link_one_at_a_time_or_share_it_evenly() -> None:
    ready_s, size = np.array([0.0, 1.0]), np.array([40.0, 10.0])
    assert carried(ready_s, size, Link(1.0, 10.0)).tolist() == [4.0, 5.0]
    assert carried(ready_s, size, Link(1.0, 10.0, shared=True)).tolist() == [5.0, 3.0]


@pytest.mark.parametrize(
    ("replicas", "routing", "word"),
    [
        ([], Routing(), "no replicas"),
        ([Replica(Rules(), one(1.0), slow=0.0)], Routing(), "slow by 0.0"),
        ([Replica(Rules(), one(1.0), dies_s=float("nan"))], Routing(), "dies_s of replica 0 is nan"),
        ([Replica(Rules(), one(1.0), dies_s=1.0)], Routing(), "every replica dies"),
        ([SECOND], Routing(signal_age_s=-1.0), "signal_age_s is -1.0"),
        ([Replica(Rules(num_gpu_blocks=1), one(1.0))], Routing(), "can never run"),
    ],
)
def test_a_fleet_without_sense_is_refused_in_one_sentence(replicas: list[Replica], routing: Routing, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        serve_fleet(work_of([0.0], [20], [5]), replicas, routing)


def test_pools_without_sense_are_refused_in_one_sentence() -> None:
    work, link = steady(1, 1.0), Link(1.0, 1.0)
    with pytest.raises(BadInput, match="prefill pool without a decode pool"):
        serve_pools(work, [SECOND], [], link, Routing())
    with pytest.raises(BadInput, match="bytes_per_s above 0"):
        serve_pools(work, [SECOND], [SECOND], Link(1.0, 0.0), Routing())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_fleet_in_leaps_is_the_fleet_in_steps(data: st.DataObject) -> None:
    work = data.draw(works())
    rules, law = data.draw(rules_for(work)), data.draw(laws())
    mortal = Replica(rules, law, dies_s=data.draw(st.floats(0, 5)), down_s=0.5)
    replicas = [Replica(rules, law, slow=1.2), mortal, Replica(rules, law, starts_s=0.1)]
    routing = Routing(data.draw(st.sampled_from(POLICIES)), data.draw(st.sampled_from([0.0, 0.1])), most_more=2)
    leapt = serve_fleet(work, replicas, routing)
    same(leapt, serve_fleet(work, replicas, routing, leaps=False))
    assert conserved(leapt)
    assert not np.any(leapt.outcome == UNFINISHED)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_fleet_of_plain_engines_is_the_fleet_in_steps(data: st.DataObject) -> None:
    work, law = data.draw(works()), data.draw(laws())
    blocks, horizon_s = data.draw(st.sampled_from([None, 10, 40])), data.draw(st.sampled_from([None, 0.2]))
    rules = Rules(max_num_seqs=data.draw(st.integers(1, 5)), max_num_batched_tokens=32, num_gpu_blocks=blocks)
    noise = data.draw(noises())
    replicas = [Replica(rules, law, noise, slow) for slow in (1.0, 1.3, 1.0)]
    age_s = data.draw(st.sampled_from([0.0, 0.1]))
    routing = Routing(data.draw(st.sampled_from(POLICIES)), age_s, most_more=2, seed=4)
    leapt = serve_fleet(work, replicas, routing, horizon_s=horizon_s)
    stepped = serve_fleet(work, replicas, routing, horizon_s=horizon_s, leaps=False)
    inside = work.arrival_s < (horizon_s or np.inf)
    np.testing.assert_array_equal(leapt.engine[inside], stepped.engine[inside])
    same(leapt, stepped)
