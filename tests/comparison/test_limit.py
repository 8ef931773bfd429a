"""Limits of `compare --fail-if`: read from words, and judged by the interval of the ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from sides import side
from twinlens.comparison.limit import Limit, failures, limit_of
from twinlens.comparison.ranking import pairs_of
from twinlens.comparison.side import one_metric
from twinlens.comparison.verdict import compare, of_metric
from twinlens.errors import BadInput
from twinlens.reporting.wording.finding import sentence_of

TTFT, TAIL = "ttft_s_p50", "ttft_s_p99"


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("p99 ttft +5%", Limit(TAIL, 0.05)),
        ("TTFT p99+5 %", Limit(TAIL, 0.05)),
        ("ttft_s_p99 +0.5%", Limit(TAIL, 0.005)),
        ("tokens/s -3%", Limit("training_tokens_per_s", -0.03)),
        ("output tokens/s - 3%", Limit("output_tokens_per_s", -0.03)),
    ],
)
def test_a_limit_is_a_metric_in_any_order_of_words_and_a_change(text: str, limit: Limit) -> None:
    assert limit_of(text) == limit


@pytest.mark.parametrize("text", ["ttft", "+5%", "p99 ttft 5%", "p99 ttft +0%", "p99 ttft -100%", "p98 tftt +5%", ""])
def test_what_is_no_limit_is_one_sentence(text: str) -> None:
    with pytest.raises(BadInput) as raised:
        limit_of(text)
    assert raised.value.code == "TL227"


def judged(b: tuple[float, ...], change: float, **parts: Any) -> list[str]:
    found = compare(side("a", {TTFT: (0.99, 1.0, 1.01)}), side("b", {TTFT: b}, **parts))
    return [each.code for each in failures([found], [Limit(TTFT, change)])]


@pytest.mark.parametrize(
    ("b", "change", "codes"),
    [
        ((1.19, 1.20, 1.21), 0.05, ["limit-passed"]),  # 1.20 (1.17 to 1.23) is above 1.05
        ((1.01, 1.02, 1.03), 0.05, []),  # 1.02 (1.00 to 1.04) is not shown to be, and 5 % would have shown
        ((0.79, 0.80, 0.81), 0.05, []),  # better is no failure
        ((0.79, 0.80, 0.81), -0.05, ["limit-passed"]),
        ((0.7, 1.0, 1.3), 0.05, ["limit-unjudged"]),  # 1.05 lies in the interval
        ((1.9, 2.1, 2.3), -0.03, []),  # 2.1 (1.6 to 2.6) is wide and all of it is safe
        ((0.4, 0.5, 0.6), 0.05, []),  # so is a latency of a half, with a limit on more of it
        ((0.89, 0.92, 0.95), -0.05, ["limit-unjudged"]),  # 0.92 (0.84 to 1.00) is on both sides of 0.95
        ((1.02, 1.03, 1.04), 0.05, ["limit-unjudged"]),  # 1.03 (1.01 to 1.055) is not shown to be below 1.05
        ((1.2,), 0.05, ["limit-unjudged"]),  # one run has no interval
    ],
)
def test_a_limit_is_passed_only_where_the_whole_interval_is_beyond_it(
    b: tuple[float, ...], change: float, codes: list[str]
) -> None:
    assert judged(b, change) == codes


@given(st.tuples(*[st.floats(0.3, 3.0)] * 3), st.sampled_from([-0.2, -0.05, 0.05, 0.3]))
def test_a_limit_is_passed_kept_or_undecided_by_where_the_interval_lies(b: tuple[float, ...], change: float) -> None:
    found = compare(side("a", {TTFT: (0.99, 1.0, 1.01)}), side("b", {TTFT: b}))
    ratio, at = found.effects[0].ratio, 1 + change
    if ratio.low is None or ratio.high is None:
        return
    beyond, within = (ratio.low > at, ratio.high <= at) if change > 0 else (ratio.high < at, ratio.low >= at)
    expected = "limit-passed" if beyond else None if within else "limit-unjudged"
    assert judged(b, change) == ([expected] if expected else [])


def test_an_undecided_limit_says_how_many_runs_would_decide_it() -> None:
    found = compare(side("a", {TTFT: (0.99, 1.0, 1.01)}), side("b", {TTFT: (1.0, 1.03, 1.06)}))
    (finding,) = failures([found], [Limit(TTFT, 0.05)])
    told = sentence_of(finding)
    assert told.startswith("Undecided: TTFT p50 of b is 1.03×")
    needed = finding.numbers["needed"]
    assert f"About {needed} runs a side would decide it (now 3)" in told
    # half the interval at n runs a side goes with t(2n - 2) / sqrt(n): 8 runs decide, 7 do not
    ratio = found.effects[0].ratio
    half, distance = np.log((ratio.high or 0) / (ratio.value or 1)), np.log(1.05 / (ratio.value or 1))
    width = [student.ppf(0.975, 2 * n - 2) / n**0.5 for n in (3, needed - 1, needed)]
    assert half * width[2] / width[0] < distance <= half * width[1] / width[0]


def test_runs_beyond_reason_are_not_promised() -> None:
    found = compare(side("a", {TTFT: (0.99, 1.0, 1.01)}), side("b", {TTFT: (0.999, 1.05, 1.099)}))
    (finding,) = failures([found], [Limit(TTFT, 0.05)])
    assert finding.numbers["needed"] is None
    assert "more runs would not decide it" in sentence_of(finding)


def test_what_may_not_be_compared_is_no_pass() -> None:
    assert judged((1.0, 1.01, 1.02), 0.05, asked=["workload.input_tokens.value=9"]) == ["limit-unjudged"]
    assert judged((1.0, 1.01, 1.02), 0.05, label="drift") == ["limit-unjudged"]


def test_a_failure_says_the_ratio_with_its_interval_and_the_limit() -> None:
    found = compare(side("a", {TTFT: (0.99, 1.0, 1.01)}), side("b", {TTFT: (1.19, 1.20, 1.21)}))
    (finding,) = failures([found], [Limit(TTFT, 0.05)])
    told = sentence_of(finding)
    assert told.startswith("TTFT p50 of b is 1.20× (1.1")
    assert told.endswith("that of the baseline, beyond the limit of +5.0 %.")
    (missing,) = failures([found], [Limit("mbu", 0.05)])
    assert "cannot be said: neither side has it" in sentence_of(missing)


def test_a_limit_on_a_metric_of_the_other_lens_names_its_namesake() -> None:
    values = {"output_tokens_per_s": [100.0, 101, 99], "total_tokens_per_s": [200.0, 201, 199]}
    (finding,) = failures([compare(side("a", values), side("b", values))], [limit_of("tokens/s -5%")])
    told = sentence_of(finding)
    assert "it is a metric of training, and these runs are not; ask for output tokens/s" in told
    assert "total tokens/s/device" not in told
    (bare,) = failures([compare(side("a", {TTFT: [1.0]}), side("b", {TTFT: [1.0]}))], [limit_of("tokens/s -5%")])
    assert sentence_of(bare).endswith("it is a metric of training, and these runs are not.")


def test_a_limit_on_what_may_not_be_compared_is_told_in_words_and_no_code() -> None:
    other = side("b", {TTFT: (1.0, 1.01, 1.02)}, label="drift")
    (finding,) = failures([compare(side("a", {TTFT: (0.99, 1.0, 1.01)}), other)], [Limit(TTFT, 0.05)])
    assert sentence_of(finding).endswith("cannot be said: these runs are not comparable.")


def test_a_mean_against_a_p99_and_a_peak_against_a_sustained_rate_are_refused() -> None:
    for text in ("A:queued mean B:queued p99 +5%", "A:peak_output_tokens_per_s B:output_tokens_per_s +5%"):
        with pytest.raises(BadInput, match=r"category error: A's .* is not comparable with B's") as raised:
            limit_of(text)
        assert raised.value.code == "TL227"
    assert limit_of("A:ttft_p99 B:p99 TTFT +5%") == limit_of("TTFT p99 +5%")


def test_a_label_of_both_lenses_is_judged_in_the_lens_of_the_runs() -> None:
    values = {"inference_images_per_s": [100.0, 101, 99]}
    found = compare(side("a", values), side("b", {"inference_images_per_s": [50.0, 51, 49]}))
    assert [each.code for each in failures([found], [limit_of("images/s -5%")])] == ["limit-passed"]


def test_one_metric_is_shown_in_the_lens_of_the_runs_and_one_that_they_lack_is_a_sentence() -> None:
    values = {"inference_images_per_s": [100.0, 101, 99], "output_tokens_per_s": [10.0, 11, 9]}
    found = compare(side("a", values), side("b", values))
    assert [each.metric for each in of_metric(found, one_metric("images/s")).effects] == ["inference_images_per_s"]
    for asked, said in (
        ("tokens/s", "these runs have no tokens/s; ask for output tokens/s"),
        ("MBU", "no MBU; known: "),
    ):
        with pytest.raises(BadInput, match=said) as raised:
            of_metric(found, one_metric(asked))
        assert raised.value.code == "TL227"


def test_a_metric_that_one_side_lacks_or_that_is_of_the_client_is_said_so() -> None:
    client = "schedule_lag_s_p99"
    with_it, without = {TTFT: (1.0, 1.01, 0.99), client: (0.1, 0.1, 0.1)}, {client: (0.1, 0.1, 0.1)}
    found = compare(side("a", with_it), side("b", without))
    told = [sentence_of(each) for each in failures([found], [Limit(TTFT, 0.05), Limit(client, 0.05)])]
    assert told[0].endswith("cannot be said: only A has it.")
    assert told[1].endswith("it is a figure of the client, which is not compared.")


def test_each_folder_is_asked_for_every_point_of_the_baseline() -> None:
    point = [side(name, folder=name) for name in ("a", "b", "c")]
    bf16 = [side(name, folder=name, point={"precision": "bf16"}) for name in ("a", "b")]
    found = pairs_of([[point[0], bf16[0]], [point[1], bf16[1]], [point[2]]])
    assert found.missed == ((bf16[0], "c"),)
    assert found.alone == ()
    (failure,) = failures([], [limit_of("output tokens/s -5%")], found.missed)
    assert sentence_of(failure).endswith("it is a point of the baseline, and c has no such point.")
