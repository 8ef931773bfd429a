from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report_material import estimate
from twinlens import units
from twinlens.record.estimate import Estimate
from twinlens.reporting import display


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (1000.0, 969.0, 1031.0, "±3.1%"),
        (1000.0, 980.0, 1090.0, "−2.0 +9.0%"),
        (100.0, 85.0, 115.0, "±15%"),
        (1000.0, 999.9, 1000.1, "±<0.1%"),
        (1000.0, 1000.0, 1000.0, ""),
    ],
)
def test_a_spread_is_relative_to_the_value(value: float, low: float, high: float, shown: str) -> None:
    found = Estimate(value, units.TOKENS_PER_S, "by hand", "measured", low=low, high=high, level=0.95)
    assert display.spread(found) == shown


def test_an_absent_value_is_a_dash_and_never_a_zero() -> None:
    absent = Estimate.absent(units.JOULES, "no counter")
    assert (display.value(absent), display.spread(absent), display.bounds(absent)) == ("–", "", "")
    assert display.value(None) == "–"


def test_bounds_share_the_unit_and_prefix_of_their_value() -> None:
    assert display.bounds(estimate(1.5, units.SECONDS, 0.25)) == "1.25–1.75 s"
    assert display.bounds(estimate(0.93, units.RATIO, 0.01)) == "92.0–94.0%"


def test_both_bounds_are_rounded_to_the_same_digit() -> None:
    """ "100.0–100 tokens/s" and "10.00–10.0 ms" stood in reports."""
    for value, half, unit, shown in (
        (100.0, 0.04, units.TOKENS_PER_S, "100–100 tokens/s"),
        (0.01, 4e-6, units.SECONDS, "10.0–10.0 ms"),
        (9.985, 0.025, units.TOKENS_PER_S, "9.96–10.01 tokens/s"),
    ):
        assert display.bounds(estimate(value, unit, half)) == shown


def test_a_ratio_keeps_two_decimals_below_ten() -> None:
    ratio = Estimate(2.875, units.RATIO, "by hand", "derived", low=2.74, high=3.06, level=0.95)
    assert (display.factor(ratio), display.factor_bounds(ratio)) == ("2.88×", "2.74–3.06×")


def test_terminal_escapes_and_bidirectional_marks_are_left_out() -> None:
    assert display.clean("a\x1b[31mred\x07 \u202eevil\u2066\nb\tc\x00") == "a[31mred evil b c"


@given(st.text())
def test_cleaned_text_is_one_printable_line(text: str) -> None:
    cleaned = display.clean(text, 50)
    assert len(cleaned) <= 50
    assert cleaned.isprintable()
