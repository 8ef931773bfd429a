"""The guards' rulings on what was seen, worked by hand."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.codec import decode, encode
from twinlens.record.sections import ComplianceTest, Response
from twinlens.reporting.wording.finding import clause_of
from twinlens.stats.compliance import AnswerTimes, Compared, TokenFaults, answers, caching, compared, length, tokens
from twinlens.stats.estimator.ratio import lowest_rank, rank_ratio

TEN = [1.0 + i / 1000 for i in (0, 9, 2, 7, 4, 5, 3, 8, 1, 6)]  # in no order: neighbours do not resemble each other


def said(text: str = "one two three", chunks: int = 3, **more: object) -> Response:
    return Response(
        **({"text": text, "first": text[:3], "chunks": chunks, "counted_tokens": 3, "finish": "length"} | more)
    )


@pytest.mark.parametrize(("m", "n", "rank"), [(5, 5, 3), (4, 4, 1), (10, 10, 24), (3, 3, None), (6, 8, 9)])
def test_the_rank_of_the_bound_is_one_above_the_tables_critical_u(m: int, n: int, rank: int | None) -> None:
    assert lowest_rank(m, n, 0.025) == rank


@pytest.mark.parametrize(("m", "n"), [(2, 3), (4, 3), (3, 5)])
def test_the_rank_keeps_its_tail_among_all_orders(m: int, n: int) -> None:
    orders = list(itertools.combinations(range(m + n), m))
    counts = [sum(a > b for a in chosen for b in set(range(m + n)) - set(chosen)) for chosen in orders]
    for tail in (0.05, 0.1, 0.2):
        rank = lowest_rank(m, n, tail)
        reached = [sum(count < r for count in counts) / len(orders) for r in range(1, m * n + 2)]
        assert (rank or 0) == sum(share <= tail + 1e-12 for share in reached)


def test_the_normal_ranks_of_many_follow_the_exact_ones_of_few() -> None:
    exact, normal = lowest_rank(50, 50, 0.025), lowest_rank(50, 51, 0.025)
    assert exact is not None
    assert normal is not None
    assert abs(normal / (50 * 51) - exact / 2500) < 0.002


def test_a_ratio_of_two_like_samples_is_one_and_its_interval_holds_it() -> None:
    ratio_estimate = rank_ratio(TEN, TEN)
    assert ratio_estimate.value == pytest.approx(1.0)
    assert ratio_estimate.low < 1 < ratio_estimate.high
    assert rank_ratio([1.0], TEN).low is None
    assert rank_ratio([], TEN).value is None


@given(st.floats(0.1, 10), st.lists(st.floats(0.01, 10), min_size=6, max_size=12))
def test_a_ratio_follows_a_change_of_scale(factor: float, times: list[float]) -> None:
    plain, scaled = rank_ratio(times, times), rank_ratio([factor * t for t in times], times)
    assert scaled.value == pytest.approx(factor * plain.value)
    assert (scaled.low is None) == (plain.low is None)
    if plain.low is not None:
        assert scaled.low == pytest.approx(factor * plain.low)
        assert scaled.high == pytest.approx(factor * plain.high)


@pytest.mark.parametrize(
    ("factor", "spread", "ruling"),
    [(1.0, 0.0, "pass"), (0.5, 0.0, "fail"), (0.0, 0.0, "fail"), (0.95, 0.0, "pass"), (0.9, 0.4, "not enough")],
)
def test_decoding_a_tenth_faster_is_the_limit_of_caching(factor: float, spread: float, ruling: str) -> None:
    noisy = [t * (1 + spread * (-1) ** i) for i, t in enumerate(TEN)]
    found = caching(AnswerTimes([factor * t for t in noisy], noisy), AnswerTimes(noisy, noisy))
    assert found.ruling == ruling, clause_of(found.reason)


def test_caching_is_not_ruled_on_from_too_few_answers_or_without_decoding() -> None:
    assert caching(AnswerTimes([0.1] * 3, TEN), AnswerTimes([1.0] * 3, TEN)).ruling == "not enough"
    assert caching(AnswerTimes([], TEN), AnswerTimes([], TEN)).ruling == "not applicable"


def counted(*some: Response, asked: int = 3) -> TokenFaults:
    found = TokenFaults()
    for one in some:
        found = found.plus(one, asked)
    return found


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("uncounted", said(counted_tokens=None)),
        ("fewer_than_chunks", said(chunks=4)),
        ("over_limit", said(counted_tokens=4)),
        ("not_finished", said(finish=None)),
        ("limit_not_reached", said(chunks=2, counted_tokens=2)),
        ("went_on", said(late_chunks=1)),
        ("more_than_bytes", said(text="ab", chunks=1)),
    ],
)
def test_each_fault_is_counted_once_and_alone(fault: str, wrong: Response) -> None:
    found = counted(said(), wrong, said())
    assert {name: getattr(found, name) for name in TokenFaults.__dataclass_fields__ if getattr(found, name)} == {
        "answers": 3,
        fault: 1,
    }


def test_a_hidden_end_of_sequence_token_and_reasoning_are_no_more_tokens_than_bytes() -> None:
    assert not counted(said(text="ab", chunks=2, finish="stop")).more_than_bytes
    assert not counted(said(text="a", chunks=3, reasoning_chunks=2)).more_than_bytes


def test_more_tokens_than_bytes_prove_nothing_where_ends_of_sequence_are_ignored() -> None:
    padded = counted(*[said(text="ab", chunks=1)] * 30)
    assert tokens(padded, [], [], forced=False).ruling == "fail"
    assert tokens(padded, [], [], forced=True).ruling == "pass"


def test_tokens_need_twenty_counted_answers_to_pass_and_one_contradiction_to_fail() -> None:
    assert tokens(counted(*[said()] * 19), [], [], forced=True).ruling == "not enough"
    assert tokens(counted(*[said()] * 20), [], [], forced=True).ruling == "pass"
    assert tokens(counted(*[said()] * 5, said(late_chunks=1)), [], [], forced=True).ruling == "fail"
    assert tokens(counted(*[said(counted_tokens=None)] * 30), [], [], forced=True).ruling == "not applicable"


def test_a_first_chunk_that_is_not_how_the_whole_answer_begins_fails() -> None:
    faults = counted(*[said()] * 30)
    assert tokens(faults, [(said(first=" "), said())], [], forced=True).ruling == "fail"
    assert tokens(faults, [(said(), said("one two four"))], [], forced=True).ruling == "pass"


@pytest.mark.parametrize(
    ("recounts", "ruling"),
    [([(12, 12)] * 6, "pass"), ([(13, 12), (12, 13)] * 3, "pass"), ([(24, 12)] * 6, "fail"), ([(24, 12)] * 2, "pass")],
)
def test_claims_far_above_the_servers_own_count_of_the_text_fail(recounts: list[tuple[int, int]], ruling: str) -> None:
    assert tokens(counted(*[said()] * 30), [], recounts, forced=True).ruling == ruling


def test_texts_are_compared_by_the_tokens_they_share_from_the_start() -> None:
    ten = said("abcdefghij", counted_tokens=5)
    assert compared(ten, ten) == Compared(5, False)
    assert compared(ten, said("abcdeXghij")) == Compared(2, True)
    assert compared(ten, said("Xbcdefghij")) == Compared(0, True)
    assert compared(ten, said("abcde")) == Compared(2, True)  # an answer cut short parts where it ends
    assert compared(said("", counted_tokens=0), said("")) == Compared(0, False)


ALIKE, APART = Compared(32, False), Compared(0, True)


@pytest.mark.parametrize(
    ("under_load", "alone", "ruling"),
    [
        ([ALIKE] * 8, [ALIKE] * 8, "pass"),
        ([APART] * 8, [ALIKE] * 8, "fail"),
        ([ALIKE] * 15 + [Compared(16, True)], [ALIKE] * 16, "pass"),  # one near tie in five hundred tokens
        ([ALIKE], [ALIKE], "not enough"),
        ([APART] * 8, [APART] * 8, "not applicable"),  # nothing repeats itself here, loaded or not
        ([], [ALIKE], "not enough"),
    ],
)
def test_answers_may_part_as_often_as_alone_and_a_twentieth_oftener(
    under_load: list[Compared], alone: list[Compared], ruling: str
) -> None:
    assert answers(under_load, alone, 0.05).ruling == ruling


@pytest.mark.parametrize(
    ("under_load", "ruling"),
    [([100] * 20, "pass"), ([92] * 20, "pass"), ([80] * 20, "fail"), ([120] * 20, "fail"), ([100] * 4, "not enough")],
)
def test_mean_length_is_held_to_a_tenth_of_the_reference(under_load: list[int], ruling: str) -> None:
    assert length(under_load, [100] * len(under_load), "asked").ruling == ruling


def test_a_mean_length_that_may_lie_on_either_side_of_the_limit_is_not_ruled_on() -> None:
    wild = np.random.default_rng(1).integers(10, 175, 20).tolist()
    assert length(wild, [100] * 20, "asked").ruling == "not enough"


def test_a_guard_is_the_same_after_json() -> None:
    guard = caching(AnswerTimes(TEN, TEN), AnswerTimes(TEN, TEN))
    assert decode(ComplianceTest, json.loads(json.dumps(encode(guard)))) == guard
    older = encode(guard) | {"reason": "as fast as others"}
    assert clause_of(decode(ComplianceTest, older).reason) == "as fast as others"
