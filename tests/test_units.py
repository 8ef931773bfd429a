"""Stored in base units, shown with a prefix that is right."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens import units
from twinlens.units import digits, scale, show

KNOWN = [value for name, value in vars(units).items() if name.isupper() and isinstance(value, str)]


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0042, "s", "4.20 ms"),
        (1.5, "s", "1.50 s"),
        (90, "s", "90.0 s"),
        (600, "s", "10.0 min"),
        (7200, "s", "2.00 h"),
        (3e-7, "s", "300 ns"),
        (2**30, "bytes", "1.00 GiB"),
        (999.6e-6, "s", "1.00 ms"),
        (999.4e-6, "s", "999 µs"),
        (599.7, "s", "10.0 min"),
        (999.7e9, "flop/s", "1.00 TFLOP/s"),
        (0.0099996, "1", "1.00%"),
        (99.96, "tokens/s", "100 tokens/s"),
        (1023, "bytes", "1,023 B"),
        (1e9, "bytes/s", "1.00 GB/s"),
        (3.35e12, "flop/s", "3.35 TFLOP/s"),
        (0.5, "1", "50.0%"),
        (0.0005, "j", "0.500 mJ"),
        (250, "w", "250 W"),
        (1234.5, "tokens/s", "1,234 tokens/s"),
        (7, "count", "7.00"),
        (9.97e6, "count", "9.97 M"),
        (999_999, "count", "999,999"),
        (None, "s", "not measured"),
        (0, "s", "0 s"),
        (0, "bytes", "0 B"),
    ],
)
def test_a_value_is_shown_with_the_unit_people_use(value: float | None, unit: str, shown: str) -> None:
    assert show(value, unit) == shown


@given(st.floats(-1e15, 1e15, allow_nan=False), st.sampled_from(KNOWN))
def test_what_is_shown_is_the_value_to_three_digits(value: float, unit: str) -> None:
    divisor, name = scale(unit, value)
    assert divisor > 0
    text = show(value, unit)
    assert text.endswith(name)
    number = float(text.removesuffix(name).replace(",", ""))
    assert number * divisor == pytest.approx(value, rel=0.006, abs=1e-300)


@given(st.floats(-1e300, 1e300))
def test_digits_keep_three_and_never_lie_about_size(value: float) -> None:
    shown = float(digits(value).replace(",", ""))
    assert shown == pytest.approx(value, rel=0.0051, abs=1e-307)
    if 1e-4 <= abs(value) < 1e6:
        assert "e" not in digits(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_says_so(value: float) -> None:
    assert digits(value) == "not finite"
