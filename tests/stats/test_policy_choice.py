"""Which admission policy has the lowest tail, and why requests were held: on numbers small enough to check by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from served_rows import columns, row
from twinlens.record.estimate import Estimate
from twinlens.spec.point import Point
from twinlens.stats.estimator.ratio import difference
from twinlens.stats.paired.arrivals import choose
from twinlens.stats.serving.latency import waits
from twinlens.stats.summary.group import Group
from twinlens.stats.summary.point import PointVerdict
from twinlens.units import SECONDS

P99 = "ttft_s_p99"


def known(value: float, half: float | None = None) -> Estimate:
    bounds = {} if half is None else {"low": value - half, "high": value + half, "level": 0.95}
    return Estimate(value, SECONDS, "made up", "measured", n=500, **bounds)


def policy(name: str, p99: Estimate, *, ranked: bool = True) -> Group:
    return Group(
        "inference",
        "small",
        {"admission": name},
        (),
        {P99: p99},
        PointVerdict("valid" if ranked else "not valid", "flat"),
    )


def test_the_lowest_tail_wins_where_the_interval_of_the_difference_clears_zero() -> None:
    choice = choose([policy("static", known(3.0, 0.3)), policy("continuous", known(1.0, 0.4))], P99)
    assert choice.best is not None
    assert choice.best.point["admission"] == "continuous"
    (other,) = choice.differences
    assert (other.more_s, other.is_told_apart) == (2.0, True)
    assert other.low_s == pytest.approx(2.0 - 0.5), "the root of 0.3² + 0.4²"


def test_overlapping_intervals_may_be_told_apart_and_wide_ones_are_not() -> None:
    near = choose([policy("a", known(1.0, 0.3)), policy("b", known(1.5, 0.3))], P99)
    assert near.differences[0].is_told_apart, "0.5 - 0.42: the intervals overlap and the difference is sure"
    wide = choose([policy("a", known(1.0, 0.4)), policy("b", known(1.5, 0.4))], P99)
    assert not wide.differences[0].is_told_apart


def test_without_an_interval_nothing_is_told_apart_and_what_is_not_ranked_is_left_out() -> None:
    choice = choose([policy("a", known(1.0)), policy("b", known(9.0, 0.1)), policy("c", known(0.1), ranked=False)], P99)
    assert choice.best is not None
    assert choice.best.point["admission"] == "a"
    assert [one.is_told_apart for one in choice.differences] == [False]
    assert [one.point["admission"] for one in choice.left_out] == ["c"]
    absent = Estimate.absent(SECONDS, "too few requests")
    assert choose([policy("a", known(1.0)), policy("b", absent)], P99).best is None


def test_a_difference_of_two_intervals_covers_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(5)
    hits, rounds = 0, 2000
    for _ in range(rounds):
        a, b = random.normal(3.0, 0.5), random.normal(2.0, 0.2)
        apart = difference(known(a, 1.96 * 0.5), known(b, 1.96 * 0.2))
        low, high = apart.low, apart.high
        assert low is not None
        assert high is not None
        hits += low <= 1.0 <= high
    assert abs(hits / rounds - 0.95) < 4 * math.sqrt(0.95 * 0.05 / rounds)


def batch(group: int, released: float, *rows: tuple[float, float]) -> list:
    return [row(due, [end], released_ms=released, sent_ms=released, group=group) for due, end in rows]


def test_the_parts_of_a_hold_are_metrics_and_add_up_to_it() -> None:
    # The first two go at 4 and end at 14 and 34; the next two are due at 5 and 6 and go at 34.
    requests = columns([*batch(0, 4, (0, 14), (4, 34)), *batch(1, 34, (5, 44), (6, 44))])
    parts = waits(requests, np.arange(4), Point(admission="static", batch=2))
    means = {name: parts[f"{name}_s_mean"].value for name in ("queued", "blocked", "gathering")}
    assert means == {"queued": pytest.approx(0.017 / 4), "blocked": pytest.approx(0.040 / 4), "gathering": 0.001}
    held = (requests.released_ns - requests.intended_ns).mean() / 1e9
    assert sum(value or 0 for value in means.values()) == pytest.approx(held)
    last = waits(requests, np.array([2, 3]), Point(admission="static", batch=2))
    assert last["blocked_s_mean"].value == pytest.approx(0.020), "the batch before lies outside the window"


def test_all_that_continuous_admission_holds_is_queueing_and_no_policy_holds_nothing() -> None:
    requests = columns([row(0, [9], released_ms=3.0, sent_ms=3.0), row(1, [9], released_ms=3.0, sent_ms=3.0)])
    parts = waits(requests, np.arange(2), Point(admission="continuous", in_flight=2))
    assert (parts["queued_s_mean"].value, parts["blocked_s_mean"].value) == (0.0025, 0.0)
    assert waits(columns([row(0, [9])]), np.arange(1), Point()) == {}
