"""Slots of a closed loop that stand empty as slices are drained: hand-worked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from served_rows import columns, row
from twinlens.record.request import Request
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.paired.slice_rate import LEAST_EMPTY, empty_slots


def sliced(number: int, *spans_ms: tuple[float, float]) -> list[Request]:
    return [row(begin, (end,), slice=number) for begin, end in spans_ms]


def test_the_share_is_that_of_slot_seconds() -> None:
    """Two slots: in one slice one stands empty for 2 of 10 ms, in the other neither; warm-up is no matter."""
    rows = [
        *sliced(-1, (0, 100)),
        *sliced(0, (200, 210), (200, 208)),
        *sliced(1, (300, 310), (300, 305), (305, 310)),
    ]
    (found,) = empty_slots(columns(rows), 2)
    assert found.numbers == {"share": pytest.approx(2 / 40), "slots": 2, "slices": 2}
    assert found.severity == "notes"
    assert "5.0 % of the time of its 2 slots" in sentence_of(found)


def test_a_tenth_is_worth_a_warning() -> None:
    (found,) = empty_slots(columns(sliced(0, (0, 10), (0, 4))), 2)
    assert (found.severity, found.numbers["share"]) == ("warns", pytest.approx(0.3))


def test_what_is_next_to_nothing_is_no_finding() -> None:
    assert list(empty_slots(columns(sliced(0, (0, 10), (0, 9.9))), 2)) == []


def test_a_run_that_took_no_turns_says_nothing() -> None:
    assert list(empty_slots(columns([row(0, (10,)), row(5, (12,))]), 2)) == []


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(1, 50)), min_size=1, max_size=8))
def test_the_share_is_a_share(spans: list[tuple[float, float]]) -> None:
    found = list(empty_slots(columns(sliced(0, *((begin, begin + took) for begin, took in spans))), len(spans)))
    assert all(LEAST_EMPTY <= each.numbers["share"] < 1 for each in found)
    assert len(found) <= 1
