"""Engines behind a simulated server, in virtual time alone: tokens come when the simulation says."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.api.simulating.fleets import POLICIES
from twinlens.simulation.engine import Engine
from twinlens.simulation.fleet import Replica, serve_fleet
from twinlens.simulation.law import StepLaw, one
from twinlens.simulation.routing import Policy, Routing
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.server.answer import Answer
from twinlens.simulation.server.asked import Asked
from twinlens.simulation.server.pace import Pace, Stream
from twinlens.simulation.server.replicas import Made, Replicas
from twinlens.simulation.work import Work, token_times_s

LAW = one(0.01, 0.001, 1e-5, 1e-4)


def asked(prompt: int, output: int, priority: int = 0) -> Asked:
    return Asked("chat", "", prompt, output, "length", 0, priority, True, False)


def replicas(
    law: StepLaw = LAW, rules: Rules | None = None, count: int = 1, routing: Routing = Routing("shortest-queue")
) -> Replicas:
    engines = [Engine(rules or Rules(), law, number=i, tokens=False) for i in range(count)]
    return Replicas(engines, routing, law.before_s, law.after_s)


def to_the_end(fleet: Replicas) -> list[Made]:
    made: list[Made] = []
    while (at_s := fleet.next_s()) < math.inf:
        made += fleet.until(at_s)
    return made


RULES = st.builds(
    Rules,
    max_num_batched_tokens=st.sampled_from([8, 64]),
    max_num_seqs=st.integers(1, 4),
    num_gpu_blocks=st.sampled_from([None, 12]),
    num_speculative_tokens=st.sampled_from([0, 2]),
    acceptance_rate=st.just(0.6),
    scheduling_policy=st.sampled_from(["fcfs", "priority"]),
)
REQUESTS = st.lists(
    st.tuples(st.floats(0, 0.3), st.integers(1, 60), st.integers(1, 20), st.integers(0, 2)), min_size=1, max_size=8
)


@settings(max_examples=40)
@given(RULES, REQUESTS, st.lists(st.floats(0, 0.05), max_size=40), st.sampled_from([0.0, 0.004]))
def test_tokens_come_when_a_simulation_of_the_same_requests_says(
    rules: Rules, requests: list[tuple[float, int, int, int]], looks: list[float], outside_s: float
) -> None:
    """However seldom and late this process looks, and with requests that are told only when they come."""
    requests = sorted(requests)
    columns = [np.array(column) for column in zip(*requests, strict=True)]
    work = Work(columns[0] + outside_s, columns[1], columns[2], columns[3])
    truth = serve(work, LAW, rules)

    fleet = replicas(StepLaw(LAW.parts, outside_s, 2 * outside_s), rules)
    got: list[list[float]] = [[] for _ in requests]
    coming, made, now_s = list(enumerate(requests)), [], 0.0
    for gap in [*looks, 10.0]:
        now_s += gap
        while coming and coming[0][1][0] <= now_s:
            number, (at_s, prompt, output, priority) = coming.pop(0)
            made += fleet.until(math.nextafter(at_s, -1))
            fleet.add(number, asked(prompt, output, priority), at_s)
        made += fleet.until(now_s)
    for each in made + to_the_end(fleet):
        assert each.first == len(got[each.number])
        got[each.number] += [each.at_s] * each.count
    for number in range(len(requests)):
        np.testing.assert_allclose(got[number], token_times_s(truth, number) + 2 * outside_s, rtol=0, atol=1e-9)


def test_a_request_that_is_left_makes_place_from_the_next_step_on() -> None:
    fleet = replicas(rules=Rules(max_num_seqs=1))
    fleet.add(1, asked(10, 1000), 0.0)
    fleet.add(2, asked(10, 3), 0.0)
    first = list(fleet.until(0.05))
    assert {each.number for each in first} == {1}
    assert fleet.states()[0].waiting == 1
    fleet.leave(1)
    rest = to_the_end(fleet)
    assert {each.number for each in rest} == {2}
    assert len(rest) == 3
    assert rest[0].at_s > first[-1].at_s


def test_a_request_may_be_left_before_it_comes_while_it_waits_and_when_it_is_over() -> None:
    fleet = replicas(StepLaw(LAW.parts, before_s=1.0), Rules(max_num_seqs=1))
    for number in (1, 2, 3):
        fleet.add(number, asked(5, 2), 0.0)
    fleet.leave(3)
    list(fleet.until(1.0))
    fleet.leave(2)
    assert {each.number for each in to_the_end(fleet)} == {1}
    fleet.leave(1)
    fleet.leave(7)
    state = fleet.states()[0]
    assert (state.running, state.waiting, state.kv_use) == (0, 0, 0.0)


@pytest.mark.parametrize("rules", [Rules(num_gpu_blocks=30), Rules(enable_prefix_caching=True, num_gpu_blocks=30)])
def test_blocks_of_a_request_that_is_left_are_free(rules: Rules) -> None:
    fleet = replicas(rules=rules)
    fleet.add(1, asked(40, 100), 0.0)
    list(fleet.until(0.1))
    assert fleet.engines[0].cache.used > 0
    fleet.leave(1)
    assert fleet.engines[0].cache.used == 0
    assert fleet.next_s() == math.inf


def test_a_batch_runs_on_with_a_request_that_is_left() -> None:
    fleet = replicas(rules=Rules(batching="static", batch_size=2))
    fleet.add(1, asked(5, 4), 0.0)
    list(fleet.until(1.0))
    assert fleet.next_s() == math.inf, "it waits for a second one"
    fleet.add(2, asked(5, 8), 1.0)
    list(fleet.until(1.0))
    fleet.leave(2)
    made = to_the_end(fleet)
    assert {each.number for each in made} == {1}
    assert fleet.engines[0].steps == 8


@pytest.mark.parametrize("policy", POLICIES)
def test_a_router_in_front_of_a_server_is_the_router_of_a_fleet(policy: Policy) -> None:
    random = np.random.default_rng(3)
    work = Work(np.cumsum(random.exponential(0.02, 60)), random.integers(1, 60, 60), random.integers(1, 20, 60))
    routing = Routing(policy, signal_age_s=0.1 if policy == "two-choices" else 0.0, seed=5)
    truth = serve_fleet(work, [Replica(Rules(max_num_seqs=4), LAW)] * 3, routing)
    fleet, made = replicas(rules=Rules(max_num_seqs=4), count=3, routing=routing), list[Made]()
    rows = zip(work.arrival_s.tolist(), work.prompt_tokens.tolist(), work.output_tokens.tolist(), strict=True)
    for number, (at_s, prompt, output) in enumerate(rows):
        made += fleet.until(math.nextafter(at_s, -1))
        fleet.add(number, asked(prompt, output), at_s)
    ends = {each.number: each.at_s for each in made + to_the_end(fleet)}
    np.testing.assert_allclose([ends[number] for number in range(60)], truth.end_s, atol=1e-9)


def test_requests_that_find_no_place_are_counted() -> None:
    fleet = replicas(rules=Rules(max_num_seqs=1))
    for number in range(3):
        fleet.add(number, asked(5, 4), 0.0)
    list(fleet.until(0.01))
    assert (fleet.waiting, fleet.most_waiting) == (2, 2)
    to_the_end(fleet)
    assert (fleet.waiting, fleet.most_waiting) == (0, 2)


def test_requests_go_where_the_fewest_are() -> None:
    fleet = replicas(count=3)
    for number in range(6):
        fleet.add(number, asked(5, 50), 0.0)
    list(fleet.until(0.01))
    assert [len(engine.running) + len(engine.waiting) for engine in fleet.engines] == [2, 2, 2]


def test_preemptions_are_counted_also_of_requests_that_are_over() -> None:
    fleet = replicas(rules=Rules(num_gpu_blocks=4, scheduler_reserve_full_isl=False))
    for number in range(3):
        fleet.add(number, asked(16, 30), 0.0)
    made = to_the_end(fleet)
    assert fleet.states()[0].preemptions > 0
    assert sum(each.count for each in made) == 90


def test_an_answer_whose_client_has_just_left_does_not_end_the_server() -> None:
    # Between the cancelling of a handler and its end, its answer is over already and still under way.
    async def scenario() -> list[int]:
        leaves, stays = (
            Stream(number, Answer.to(asked(10, 3), number, "simulated", 0), 0.0, asyncio.Future()) for number in (1, 2)
        )
        written: list[int] = []

        async def write(stream: Stream, first: int, count: int, lag_s: float) -> None:
            written.append(stream.number)
            leaves.over.cancel()
            for each in (leaves, stays):
                if each is leaves or first + count == 3:
                    each.end("length")

        pace = Pace(replicas(), 1.0, write)
        pace.add(leaves)
        pace.add(stays)
        run = asyncio.ensure_future(pace.run())
        assert await asyncio.wait_for(asyncio.shield(stays.over), 20) == "length"
        assert not run.done()
        run.cancel()
        await asyncio.wait({run})
        return written

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(lambda: asyncio.run(scenario())).result()
    assert written.count(2) == 3
    assert written.count(1) <= 1
