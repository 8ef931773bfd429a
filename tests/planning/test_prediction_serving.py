"""The fixed point of serving, held to laws that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.planning.prediction import constant
from twinlens.planning.prediction.constant import Constants
from twinlens.planning.prediction.place import Layout, Rates
from twinlens.planning.prediction.serving import closed_loop, open_loop, processor_sharing, static_batch_s
from twinlens.planning.prediction.step_time import decode_step, prefill
from twinlens.planning.prediction.work import stored, work_of
from twinlens.spec.model.reference import load_model

SHAPE = load_model("llama-3.1-70b").shape
WORK = work_of(SHAPE, stored("fp8", SHAPE))
H100 = Rates(3.35e12, 1.5e15, 1.5e15, 0.79e15, 450e9, 50e9, 85e9, 8.0)
USUAL = Constants({name: float(np.log(each.value)) for name, each in constant.SERVING.items()}, {}).at(())


@given(
    fixed=st.floats(1e-4, 1e-1),
    each=st.floats(1e-6, 1e-2),
    answer=st.integers(1, 4000),
    busy=st.floats(0.01, 0.95),
)
def test_with_an_affine_step_the_fixed_point_is_the_processor_sharing_queue(
    fixed: float, each: float, answer: int, busy: float
) -> None:
    rate = busy / (answer * each)
    step, others = processor_sharing(lambda there: fixed + each * (there + 1.0), rate, answer, 1e8)
    expected = answer * (fixed + each) / (1.0 - rate * answer * each)
    assert float(answer * step) == pytest.approx(expected, rel=1e-6)
    assert float(others) == pytest.approx(rate * expected, rel=1e-6)


def test_without_an_equilibrium_the_batch_is_full() -> None:
    _, others = processor_sharing(lambda there: 0.01 + 0.01 * there, 10.0, 100, 64.0)
    assert float(others) == pytest.approx(64.0)


def test_an_open_loop_with_more_requests_than_it_can_serve_has_no_latency() -> None:
    served = open_loop(WORK, H100, Layout(tensor=2), USUAL, 1e3, 1024.0, 256.0, 400.0)
    assert np.isinf(served.tpot_s)
    assert np.isinf(served.wait_s)


def test_a_closed_loop_agrees_with_littles_law() -> None:
    users = np.array([1.0, 4.0, 16.0, 64.0])
    served = closed_loop(WORK, H100, Layout(tensor=4), USUAL, users, 1024.0, 512.0, 1e9)
    spent = served.ttft_s + 512.0 * served.tpot_s
    assert served.requests_per_s * spent == pytest.approx(users, rel=1e-3)
    assert np.all(np.diff(served.tpot_s) > 0)
    assert np.all(np.diff(served.ttft_s) > 0)


def test_users_beyond_the_cache_wait_for_a_place_and_slow_nobody() -> None:
    most = 118.0
    at_most = closed_loop(WORK, H100, Layout(tensor=4), USUAL, most, 8192.0, 1024.0, most)
    twice = closed_loop(WORK, H100, Layout(tensor=4), USUAL, 2 * most, 8192.0, 1024.0, most)
    assert float(twice.tpot_s) == pytest.approx(float(at_most.tpot_s), rel=1e-6)
    assert float(twice.requests_per_s) == pytest.approx(float(at_most.requests_per_s), rel=1e-6)
    assert float(twice.wait_s - at_most.wait_s) == pytest.approx(most / float(at_most.requests_per_s), rel=1e-3)


def test_twice_the_bandwidth_helps_decode_and_not_prefill() -> None:
    faster = replace(H100, bytes_per_s=2 * H100.bytes_per_s)
    slow, fast = (decode_step(WORK, rates, Layout(), USUAL, 1.0, 1024.0) for rates in (H100, faster))
    assert float(fast.weights_s / slow.weights_s) == pytest.approx(0.5, rel=1e-3)
    long, same = (prefill(WORK, rates, Layout(), USUAL, 8192.0, 8192.0) for rates in (H100, faster))
    assert float(same.total_s / long.total_s) == pytest.approx(1.0, abs=0.01)


def test_a_static_batch_is_prefill_and_a_step_for_each_token() -> None:
    answer, batch, layout = 128.0, 4.0, Layout(tensor=4)
    expected = (
        prefill(WORK, H100, layout, USUAL, batch * 256.0, 256.0).total_s
        + answer * decode_step(WORK, H100, layout, USUAL, batch, 256.0 + answer / 2).total_s
    )
    assert float(static_batch_s(WORK, H100, layout, USUAL, batch, 256.0, answer, 1e9)) == pytest.approx(float(expected))


def test_a_batch_touches_no_more_experts_than_there_are() -> None:
    shape = load_model("mixtral-8x7b").shape
    work = work_of(shape, stored("bf16", shape))
    assert work.touched(1.0) == pytest.approx(2 / 8)
    assert work.touched(1e6) == pytest.approx(1.0)


def test_ten_thousand_questions_are_arrays_of_the_same_answers() -> None:
    users = np.linspace(1.0, 256.0, 10_000)
    many = closed_loop(WORK, H100, Layout(tensor=4), USUAL, users, 1024.0, 512.0, 1e9)
    one = closed_loop(WORK, H100, Layout(tensor=4), USUAL, users[777], 1024.0, 512.0, 1e9)
    assert many.tpot_s.shape == (10_000,)
    assert float(many.tpot_s[777]) == pytest.approx(float(one.tpot_s))


@pytest.mark.parametrize("lengths", ["alike", "geometric"])
def test_a_simulated_server_with_that_step_serves_as_the_fixed_point_says(lengths: str) -> None:
    """Continuous batching played step by step: who arrives joins the next step, whatever the lengths of answers."""
    fixed, each, mean, rate, many = 0.002, 0.001, 50, 12.0, 8000
    chance = np.random.default_rng(7)
    due = np.cumsum(chance.exponential(1 / rate, many))
    left = np.full(many, mean) if lengths == "alike" else chance.geometric(1 / mean, many)
    now, upcoming, running, spent = 0.0, 0, [], []
    while len(spent) < many:
        while upcoming < many and due[upcoming] <= now:
            running.append(upcoming)
            upcoming += 1
        if not running:
            now = float(due[upcoming])
            continue
        now += fixed + each * len(running)
        left[running] -= 1
        spent += [now - due[i] for i in running if left[i] == 0]
        running = [i for i in running if left[i] > 0]
    step, _ = processor_sharing(lambda there: fixed + each * (there + 1.0), rate, mean, 1e6)
    assert np.mean(spent[many // 10 :]) == pytest.approx(float(mean * step), rel=0.08)
