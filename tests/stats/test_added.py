"""Differences by turns, of rows whose truth is known: a proxy that adds 5 ms to first tokens, beside its server."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.coverage.added import ADDED_S, rows

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.stats.paired.added import differences


def holds(estimate: Estimate, truth: float) -> bool:
    return estimate.low is not None and estimate.high is not None and estimate.low <= truth <= estimate.high


@pytest.mark.parametrize("repeats", [1, 5])
def test_the_interval_holds_the_delay_that_a_proxy_adds(repeats: int) -> None:
    """At 95 %, so of twenty trials nearly all: 15 or fewer would come once in 400."""
    trials = [range(trial, trial + repeats) for trial in range(0, 20 * repeats, repeats)]
    pairs = [[(rows(1, seed, added_s=ADDED_S), rows(0, seed)) for seed in trial] for trial in trials]
    found = [differences(trial, [2] * repeats) for trial in pairs]
    assert sum(holds(each["ttft_s_p50"], ADDED_S) for each in found) > 15
    assert sum(holds(each["itl_s_p50"], 0.0) for each in found) > 15
    values = [each["ttft_s_p50"].value or 0.0 for each in found]
    assert np.mean(values) == pytest.approx(ADDED_S, rel=0.1)


def test_the_order_of_the_two_turns_the_sign() -> None:
    proxy, server = rows(1, 3, added_s=ADDED_S), rows(0, 3)
    there, back = (differences([pair], [2])["ttft_s_p99"] for pair in ((proxy, server), (server, proxy)))
    assert there.value == pytest.approx(-(back.value or 0.0))
    assert there.low == pytest.approx(-(back.high or 0.0))


def test_answers_of_one_token_have_no_gaps_and_too_many_failures_no_p99() -> None:
    whole = differences([(rows(1, 1, tokens=1), rows(0, 1, tokens=1))], [2])
    assert whole["itl_s_p50"].reason == "answers came in one piece"
    assert whole["ttft_s_p50"].value is not None
    failing = differences([(rows(1, 1, failed=0.1), rows(0, 1))], [2])
    assert failing["ttft_s_p99"].value is None
    assert failing["ttft_s_p99"].reason == "more requests failed in a stretch than the quantile leaves out"
    assert failing["ttft_s_p50"].value is not None


def test_few_stretches_have_no_interval_and_say_how_many_it_takes() -> None:
    one = differences([(rows(1, 1), rows(0, 1))], [2])["ttft_s_p50"]
    assert one.low is not None
    few = differences([(_first(rows(1, 1), 3), _first(rows(0, 1), 3))], [2])["ttft_s_p50"]
    assert few.low is None
    assert "stretches of 60 requests" in (few.no_interval or "")


def _first(requests: Requests, rounds: int) -> Requests:
    """Its other rounds are of a warm-up."""
    return replace(requests, slice=np.where(requests.slice // 2 < rounds, requests.slice, -1.0))
