"""Figures that explain themselves: finite or absent with a reason, and never without their inputs."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure, Input, absent, assumed, product, total

UNKNOWN = Finding("plan-unknown", "warns", "kv", {"model": "13B", "needs": "layers"})


def test_a_product_shows_what_it_multiplied() -> None:
    kv = product("kv", "bytes", (Input("users", 16, "users"), Input("each", 10, "bytes")))
    assert (kv.value, kv.formula) == (160, "{0} × {1}")
    assert [each["name"] for each in encode(kv)["inputs"]] == ["users", "each"]


def test_a_sum_with_an_unknown_part_is_unknown_for_the_same_reason() -> None:
    known, unknown = Figure("weights", 3.0, "bytes"), absent("kv", "bytes", UNKNOWN)
    assert total("needed", "bytes", (known, known)).value == 6.0
    whole = total("needed", "bytes", (known, unknown))
    assert whole.value is None
    assert whole.reason == UNKNOWN


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN")])
def test_a_figure_is_finite_or_absent(value: float) -> None:
    with pytest.raises(ValueError, match="finite or absent"):
        Figure("kv", value, "bytes")


def test_an_absent_figure_says_why_and_a_band_holds_its_value() -> None:
    with pytest.raises(ValueError, match="does not say why"):
        Figure("kv", None, "bytes")
    with pytest.raises(ValueError, match="outside its own band"):
        Figure("kv", 5.0, "bytes", low=6.0, high=7.0)


def test_assumptions_come_up_from_the_inputs_each_once() -> None:
    note = assumed("model", "llama-3.1-70b")
    part = Figure("weights", 1.0, "bytes", assumptions=(note,))
    assert total("needed", "bytes", (part, part)).all_assumptions() == (note,)


def test_why_is_plain_data_and_keeps_every_cent() -> None:
    cost = product("cost", "$", (Input("hours", 3, "h"), Input("rate", Decimal("0.10"), "$/h")))
    assert cost.value == Decimal("0.30")
    assert json.loads(json.dumps(encode(cost)))["value"] == "0.30"
