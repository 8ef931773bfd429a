"""Partitions of time: on one clock, and all of it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from diagnosis.saturated import told
from served_rows import columns, failed, row
from twinlens.diagnosis.phase import Partition, partition_of
from twinlens.diagnosis.time_split import of_lockstep, of_served, of_steps
from twinlens.record.step import STEP_SCHEMA, Steps


def steps(*rows: dict[str, int]) -> Steps:
    known = {"kind": "step", "samples": 2, "tokens": 64, "loss": 1.0}
    return Steps.from_table(pa.Table.from_pylist([known | each for each in rows], schema=STEP_SCHEMA))


def is_whole(partition: Partition) -> bool:
    return math.isclose(sum(partition.share(part) for part in partition.parts), 1.0, abs_tol=1e-12)


def test_phases_of_steps_the_gap_between_them_and_the_rest_are_all_of_the_time() -> None:
    rows = steps(
        {"begin_ns": 0, "end_ns": 80, "data_ns": 10, "forward_ns": 20, "backward_ns": 40},
        {"begin_ns": 100, "end_ns": 180, "data_ns": 10, "forward_ns": 20, "backward_ns": 40},
    )
    found = of_steps(rows)
    assert {name: round(180 * found.share(name)) for name in found.parts} == {
        "data": 20, "forward": 40, "backward": 80, "between-steps": 20, "unattributed": 20,
    }  # fmt: skip
    assert found.seconds == pytest.approx(90e-9)
    assert "communicate" not in found.parts, "a phase that does not exist is no part, not 0"
    assert is_whole(found)


def test_phases_that_overlap_have_no_shares() -> None:
    found = of_steps(steps({"begin_ns": 0, "end_ns": 50, "forward_ns": 40, "backward_ns": 40}))
    assert found.parts == {}
    assert "overlap" in str(found.reason)


def test_a_request_in_process_is_split_at_its_own_timestamps() -> None:
    requests = columns([row(0, (30, 60, 90), sent_ms=10, end_ms=100), row(100, (130, 190), end_ms=200)])
    found = of_lockstep(requests, np.arange(2))
    spent = {name: round(1e3 * seconds * found.count) for name, seconds in found.parts.items()}
    assert spent == {"before-sending": 10, "prefill": 50, "decode": 120, "after-last-token": 20, "unattributed": 0}
    assert is_whole(found)


def test_the_servers_own_queue_and_prefill_split_the_time_to_the_first_token() -> None:
    requests = columns([row(0, (50, 100)), row(100, (150, 200))])
    found = of_served(requests, np.arange(2), told(server_queue_s_mean=0.02, server_prefill_s_mean=0.025))
    spent = {name: round(1e3 * seconds) for name, seconds in found.parts.items() if seconds}
    assert spent == {"queue": 20, "prefill": 25, "transport": 5, "decode": 50}
    assert is_whole(found)


@pytest.mark.parametrize("metrics", [{}, told(server_queue_s_mean=0.04, server_prefill_s_mean=0.02)])
def test_without_figures_of_the_server_that_fit_that_stretch_is_unattributed(metrics) -> None:
    found = of_served(columns([row(0, (50, 100))]), np.arange(1), metrics)
    assert found.share("unattributed") == pytest.approx(0.5)
    assert not {"queue", "prefill", "transport"} & set(found.parts)


def test_means_of_the_server_that_are_a_little_too_long_are_cut_back_in_proportion() -> None:
    """They are of the requests between two readings of its page, which are not quite those of the rows."""
    metrics = told(server_queue_s_mean=0.042, server_prefill_s_mean=0.0105)  # 52.5 ms of 50
    found = of_served(columns([row(0, (50, 100))]), np.arange(1), metrics)
    spent = {name: round(1e3 * seconds) for name, seconds in found.parts.items() if seconds}
    assert spent == {"queue": 40, "prefill": 10, "decode": 50}
    assert is_whole(found)


def test_under_overload_the_queue_is_the_queue_and_no_transport_is_invented() -> None:
    """A server of ten requests a second is offered twenty: 5 ms of prefill, 1 ms of network, and a queue that grows.

    Its page says the mean queue of the requests that left it while it was read; those sent meanwhile waited longer.
    """
    sent = [50 * place for place in range(400)]
    started = [100 * place for place in range(400)]  # when the engine takes it up
    rows = [
        row(at, (start + 6, start + 60), sent_ms=at, end_ms=start + 61) for at, start in zip(sent, started, strict=True)
    ]
    requests = columns(rows)
    begin, end = 5_000, 20_000
    left = [start - at for at, start in zip(sent, started, strict=True) if begin <= start <= end]
    metrics = told(server_queue_s_mean=sum(left) / len(left) / 1e3, server_prefill_s_mean=0.005)
    window = np.array([place for place, at in enumerate(sent) if begin <= at <= end])
    before = of_served(requests, window, metrics)
    assert before.share("transport") > 0.3, "without the times of the readings the rest was called transport"
    found = of_served(requests, window, metrics, (begin * 1e6, end * 1e6))
    assert found.share("transport") < 0.01
    assert found.share("queue") > 0.95
    assert is_whole(found)


def test_where_the_queue_stays_as_it_is_transport_is_what_the_server_does_not_say() -> None:
    rows = [row(at, (at + 50, at + 100), sent_ms=at) for at in range(0, 10_000, 100)]
    metrics = told(server_queue_s_mean=0.02, server_prefill_s_mean=0.01)
    found = of_served(columns(rows), np.arange(20, 80), metrics, (2e9, 8e9))
    assert found.parts["transport"] == pytest.approx(0.02)
    assert found.parts["queue"] == pytest.approx(0.02)


def test_a_server_that_says_its_prefill_alone_leaves_queue_and_transport_unattributed() -> None:
    found = of_served(columns([row(0, (50, 100))]), np.arange(1), told(server_prefill_s_mean=0.03))
    assert (found.share("prefill"), found.share("unattributed")) == pytest.approx((0.3, 0.2))
    assert not {"queue", "transport"} & set(found.parts)


def test_time_that_a_policy_held_a_request_back_is_a_part() -> None:
    found = of_served(columns([row(0, (50, 100), released_ms=20, sent_ms=20)]), np.arange(1), {})
    assert found.share("held") == pytest.approx(0.2)
    assert found.share("before-sending") == 0


def test_requests_that_failed_are_in_no_part_and_none_at_all_says_so() -> None:
    requests = columns([row(0, (50, 100)), failed(100, 900)])
    assert of_lockstep(requests, np.arange(2)).seconds == pytest.approx(0.1)
    nothing = of_lockstep(requests, np.array([1]))
    assert (nothing.parts, nothing.count) == ({}, 0)
    assert nothing.reason


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=6), st.floats(0, 1e3), st.integers(1, 1000))
def test_parts_always_add_up_to_all_of_the_time(spent: list[float], left: float, count: int) -> None:
    total = sum(spent) + left
    found = partition_of("step", total, {str(place): each for place, each in enumerate(spent)}, count)
    assume(total == 0 or total > 1e-9)  # a clock counts nanoseconds, and smaller floats divide to 0
    if total > 0:
        assert found.seconds * count == pytest.approx(total)
        assert is_whole(found)
    else:
        assert found.reason
