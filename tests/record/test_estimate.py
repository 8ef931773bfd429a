"""A number with its evidence, or the reason why there is none."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.codec import decode, encode
from twinlens.record.estimate import Estimate

finite = st.floats(allow_nan=False, allow_infinity=False)
estimates = st.builds(
    Estimate,
    finite,
    st.sampled_from(["s", "bytes", "flop/s"]),
    st.text(max_size=20),
    st.sampled_from(["measured", "derived", "modelled", "quoted"]),
    low=st.none() | finite,
    high=st.none() | finite,
    level=st.none() | st.floats(0, 1),
    n=st.none() | st.integers(0, 10**9),
)


@given(estimates)
def test_an_estimate_survives_json(estimate: Estimate) -> None:
    assert decode(Estimate, json.loads(json.dumps(encode(estimate), allow_nan=False))) == estimate


@given(st.sampled_from([math.nan, math.inf, -math.inf]), st.sampled_from(["value", "low", "high"]))
def test_nothing_infinite_or_undefined_is_an_estimate(wrong: float, where: str) -> None:
    numbers = {"value": 1.0, "low": 0.5, "high": 2.0} | {where: wrong}
    with pytest.raises(ValueError, match="finite or absent"):
        Estimate(numbers["value"], "s", "mean", "measured", numbers["low"], numbers["high"])


@pytest.mark.parametrize("reason", [None, ""])
def test_what_is_absent_says_why(reason: str | None) -> None:
    with pytest.raises(ValueError, match="says why"):
        Estimate(None, "s", "mean", "measured", reason=reason)
    absent = Estimate.absent("s", "no row has it")
    assert (absent.value, absent.reason) == (None, "no row has it")
    assert encode(absent)["value"] is None, "a reader finds the key and finds it empty, never 0"
    assert decode(Estimate, encode(absent)) == absent


def test_zero_is_a_value_and_not_absent() -> None:
    assert decode(Estimate, encode(Estimate(0.0, "s", "mean", "measured"))).value == 0.0


def test_an_estimate_cannot_be_changed_and_takes_no_unknown_key() -> None:
    with pytest.raises(FrozenInstanceError):
        Estimate(1.0, "s", "mean", "measured").value = 2.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="colour"):
        decode(Estimate, {"value": 1.0, "unit": "s", "method": "mean", "origin": "measured", "colour": "red"})
