"""Injected failures: which requests, and what becomes of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.simulation.server.fault import Fault, Faults, Share, faults_of


def test_a_text_of_failures_is_read() -> None:
    read = faults_of("429=0.05:2, cut=0.01,slow=0.1", seed=4)
    assert read == Faults((Share("429", 0.05, 2.0), Share("cut", 0.01, 0.0), Share("slow", 0.1, 3.0)), 4)
    assert faults_of("").of(1, 5) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("500", "share"),
        ("504=0.1", "did you mean"),
        ("cut=1.1", "from 0 to 1"),
        ("cut=nan", "from 0 to 1"),
        ("cut=0.1:3", "takes no amount"),
        ("slow=0.1:0.5", "at least 1"),
        ("stall=0.1:x", "seconds"),
        ("stall=0.1:-1", "seconds"),
        ("429=0.7,cut=0.7", "more than 1"),
    ],
)
def test_a_text_that_cannot_be_is_refused_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        faults_of(text)


def test_shares_come_out_and_the_same_seed_draws_the_same() -> None:
    faults = faults_of("429=0.2,cut=0.1", seed=1)
    drawn = [faults.of(number, 50) for number in range(2000)]
    assert drawn == [faults.of(number, 50) for number in range(2000)]
    assert drawn != [faults_of("429=0.2,cut=0.1", seed=2).of(number, 50) for number in range(2000)]
    kinds = [each.kind if each else "" for each in drawn]
    assert 320 < kinds.count("429") < 480, "400 ± 4.5 standard errors of 18"
    assert 140 < kinds.count("cut") < 260, "200 ± 4.5 standard errors of 13"


@settings(max_examples=30)
@given(st.sampled_from(["stall", "slow"]), st.floats(1, 50), st.lists(st.floats(0, 10), min_size=2, max_size=20))
def test_late_tokens_keep_their_order_and_none_comes_early(kind: str, amount: float, gaps: list[float]) -> None:
    due_s, at_s = [], 3.0
    for gap in gaps:
        at_s += gap
        due_s.append(at_s)
    fault = Fault(kind, amount, token=len(gaps) // 2)
    late_s = [fault.due_s(each, i, 3.0) for i, each in enumerate(due_s)]
    assert late_s == sorted(late_s)
    assert all(late >= due for late, due in zip(late_s, due_s, strict=True))


def test_a_stalled_answer_stands_still_once_and_a_slow_one_all_along() -> None:
    due_s = [1.0, 2.0, 3.0]
    assert [Fault("stall", 5.0, 1).due_s(each, i, 0.5) for i, each in enumerate(due_s)] == [1.0, 7.0, 8.0]
    assert [Fault("slow", 2.0, 1).due_s(each, i, 0.5) for i, each in enumerate(due_s)] == [1.5, 3.5, 5.5]
