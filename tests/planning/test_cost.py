"""What serving costs, by hand and by law: halves that add up, bands from the inputs, and no price that nobody said."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.api.plan.cost import CostResult, cost
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.theory.figure import Figure

OWN = {"buy": "37500 USD", "energy": "0.10 USD/kWh", "power": "700W", "host": 1.5, "pue": 1.3, "life": "4 years"}


def figure(found: CostResult, name: str) -> Figure:
    return next(each for each in found.answer.figures() if each.name == name)


def value(found: CostResult, name: str) -> Decimal:
    known = figure(found, name).value
    assert isinstance(known, Decimal), name
    return known


def test_a_rented_request_is_an_hour_over_its_requests() -> None:
    found = cost("4 requests/s", rent="3 USD/h")
    assert value(found, "request") == Decimal(3) / 14400
    energy = figure(found, "energy")
    assert energy.value is None
    assert energy.reason is not None


def test_both_halves_of_a_machine_of_ones_own() -> None:
    """37,500 over 35,040 h is $1.0702 an hour; 1.365 kW at $0.10 is $0.1365: together $1.2067, 11 % energy."""
    found = cost("1 requests/s", **OWN)
    hardware, energy = found.answer.hour()
    assert hardware.value == Decimal(37500) / 35040
    assert energy.value == Decimal("0.1365")
    assert value(found, "request") == pytest.approx(Decimal("1.20670") / 3600, rel=Decimal("1e-5"))
    assert float(value(found, "energy-share")) == pytest.approx(0.1131, abs=1e-4)


def test_a_useful_hour_at_seventy_per_cent_over_three_years() -> None:
    """$30,000 / (3 × 8,760 × 0.7) is $1.63, and not $0.90 to 1.40."""
    found = cost("1 requests/s", **(OWN | {"buy": "30000 USD", "life": "36 months", "busy": "70%"}))
    assert float(found.answer.hour()[0].value or 0) == pytest.approx(1.6308, abs=1e-4)
    halves = [float(each.value or 0) for each in found.answer.hour()]
    assert sum(halves) > 1.4


@pytest.mark.parametrize(("kwh", "share"), [("0.10 USD/kWh", 0.113), ("0.30 USD/kWh", 0.277)])
def test_energy_is_the_lesser_half_at_ordinary_prices(kwh: str, share: float) -> None:
    assert float(value(cost("1 requests/s", **(OWN | {"energy": kwh})), "energy-share")) == pytest.approx(
        share, abs=1e-3
    )


def test_a_cent_a_use_of_a_million_daily_users_is_three_hundred_thousand_a_month() -> None:
    asked: dict[str, Any] = {"api": "1 cent/request", "users": "1M", "uses": 1}
    assert value(cost(**asked, days=30), "bill") == 300_000
    assert value(cost(**asked, days=30.4375), "bill") == 304_375
    assert value(cost(**(asked | {"api": "0.5 cent/request"}), days=30), "bill") == 150_000
    found = cost(**asked, days=30)
    assert value(found, "doubled") == 600_000
    assert value(found, "half-cent") == 150_000
    assert value(found, "thousand-users") == 300


def test_a_hundred_million_over_a_thousand_million_requests_is_ten_cents_and_not_negligible() -> None:
    found = cost(api="1 cent/request", training="100M USD", requests="1e9")
    assert value(found, "training-request") == Decimal("0.1")
    assert float(value(found, "training-share")) == pytest.approx(10 / 11)
    assert value(found, "training-equal") == 10**10
    assert float(value(found, "training-small")) == pytest.approx(1.9e11)
    two_years = cost(api="1 cent/request", training="100M USD", requests=730_000_000)
    assert float(value(two_years, "training-request")) == pytest.approx(0.137, abs=1e-4)


def test_training_by_the_hour_is_at_the_rent() -> None:
    found = cost("1 requests/s", rent="2 USD/h", training_hours=5000)
    assert value(found, "training") == 10_000


def test_tokens_apart_pay_for_the_request() -> None:
    found = cost("4 requests/s", rent="3 USD/h", input_tokens=1000, output_tokens=250, output_weight=4)
    ahead, after = value(found, "million-input"), value(found, "million-output")
    assert after == 4 * ahead
    assert float((1000 * ahead + 250 * after) / 10**6) == pytest.approx(float(value(found, "request")))
    assert figure(cost("4 requests/s", rent="3 USD/h"), "million").value is None


def test_an_api_by_the_token() -> None:
    found = cost(api="3 USD/M input tokens + 15 USD/M output tokens", input_tokens=1000, output_tokens=200)
    assert value(found, "request") == Decimal("0.006")


def test_a_rate_of_tokens_is_one_of_requests_by_their_length() -> None:
    found = cost("1000 tokens/s", rent="3 USD/h", output_tokens=250)
    assert value(found, "request") == value(cost("4 requests/s", rent="3 USD/h"), "request")


def test_a_range_of_prices_is_a_band() -> None:
    request = figure(cost("1 requests/s", rent="1-3 USD/h"), "request")
    assert (request.low, request.value, request.high) == (Decimal(1) / 3600, Decimal(2) / 3600, Decimal(3) / 3600)


def test_retries_cost_and_hits_save() -> None:
    plain = value(cost("1 requests/s", rent="3 USD/h"), "request")
    found = cost("1 requests/s", rent="3 USD/h", retries="10%", hits="50%")
    assert value(found, "request") == plain * Decimal("1.1") * Decimal("0.5")
    assert value(found, "listed") == plain


def test_idle_machines_are_paid_and_margins_shrink() -> None:
    found = cost("1 requests/s", rent="3 USD/h", users=1000, uses=10, revenue="20 USD/user/month")
    assert value(found, "machines") == 1
    assert value(found, "bill") == 3 * 730
    assert value(found, "request") < value(found, "request-at-load")
    margins = [value(found, f"margin-{growth}") for growth in (1, 2, 5, 10)]
    assert margins == sorted(margins, reverse=True)
    assert margins[0] == 20_000 - 2190


def test_carbon_has_its_source() -> None:
    """1 kW at 2 requests/s is 500 J each: 0.000139 kWh, 0.0556 g at 400 g/kWh."""
    found = cost(
        "2 requests/s", **(OWN | {"power": "1kW", "host": 1, "pue": 1}), carbon="400 g/kWh", carbon_source="IEA 2024"
    )
    grams = figure(found, "carbon")
    assert float(grams.value or 0) == pytest.approx(500 / 3.6e6 * 400)
    assert encode(grams)["inputs"][1]["source"] == "IEA 2024"


def test_why_is_the_whole_arithmetic_as_json() -> None:
    found = json.loads(json.dumps(cost("4 requests/s", **OWN, users=1000).to_json()))
    request = next(each for each in found["figures"] if each["name"] == "request")
    assert request["formula"] == "{0} + {1}"
    assert {each["name"] for each in request["inputs"]} == {"hardware", "energy"}
    assert all(each["text"] for each in found["assumptions"])


MONEY = st.decimals("0.01", "100", places=2)
SHARE = st.floats(0.05, 1.0)


@settings(deadline=None, max_examples=40)
@given(MONEY, SHARE, SHARE)
def test_cost_falls_with_utilisation(rent: Decimal, one: float, other: float) -> None:
    less, more = sorted((one, other))
    costs = [value(cost("1 requests/s", rent=f"{rent} USD/h", busy=busy), "request") for busy in (less, more)]
    assert costs[0] >= costs[1]


@settings(deadline=None, max_examples=40)
@given(MONEY, st.integers(1, 10**7), st.floats(0.1, 50))
def test_parts_of_a_bill_add_up_to_the_cent(kwh: Decimal, users: int, uses: float) -> None:
    found = cost("3 requests/s", **(OWN | {"energy": f"{kwh} USD/kWh"}), users=users, uses=uses)
    bill = value(found, "bill")
    assert bill == value(found, "hardware-month") + value(found, "energy-month")
    assert bill == bill.quantize(Decimal("0.01"))
    requests = value(found, "monthly")
    assert bill + Decimal("0.01") >= value(found, "request") * requests


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 1e4), st.floats(0.01, 1e4))
def test_cost_falls_with_the_rate(one: float, other: float) -> None:
    slow, fast = sorted((one, other))
    costs = [value(cost(f"{rate!r} requests/s", rent="3 USD/h"), "request") for rate in (slow, fast)]
    assert costs[0] >= costs[1]


def test_the_largest_bill_is_still_in_cents() -> None:
    found = cost(api="10000 B USD/request", users="1e10", uses=1e6, days=31)
    assert value(found, "bill") == Decimal(10) ** 13 * 10**10 * 10**6 * 31


def test_a_rate_may_be_small() -> None:
    assert value(cost("1e-3 requests/s", rent="3.6 USD/h"), "request") == 1


WORDS = ["throughput", "rent", "users", "busy", "days", "retries", "output_weight"]


@given(st.text(max_size=12), st.sampled_from(WORDS))
@settings(deadline=None, max_examples=150)
def test_any_word_is_a_cost_or_one_sentence(word: str, name: str) -> None:
    asked: dict[str, Any] = {"throughput": "4 requests/s", "rent": "3 USD/h", "users": 10} | {name: word}
    refused, found = None, None
    try:
        found = cost(asked.pop("throughput"), **asked)
    except BadInput as wrong:
        refused = wrong.code
    assert refused in (None, "TL231", "TL234")
    assert found is None or value(found, "request") >= 0


def test_idle_hours_draw_power_where_it_is_known_and_are_said_to_be_left_out_where_not() -> None:
    """Busy 25 %: each busy hour has 3 idle ones. 0.7 kWh + 3 × 0.1 kWh at $0.10 is 10 cents, and 7 without."""
    asked: dict[str, Any] = {"buy": "30000 USD", "power": "700W", "energy": "0.10 USD/kWh", "busy": "25%"}
    with_idle, without = (cost("1 requests/s", **asked, **more) for more in ({"idle_power": "100W"}, {}))
    assert [float(each.answer.hour()[1].value) for each in (with_idle, without)] == pytest.approx([0.10, 0.07])
    left_out = [note.subject for note in without.answer.assumptions()]
    assert "idle-power" in left_out
    assert "idle-power" not in [note.subject for note in with_idle.answer.assumptions()]
    always = cost("1 requests/s", **asked | {"busy": "100%"})
    assert "idle-power" not in [note.subject for note in always.answer.assumptions()]


def test_a_month_is_of_whole_machines_and_says_how_busy_they_are() -> None:
    """10,000 requests a day at 10/s: 304,167 in 730 h are 8.449 busy hours, 1.157 %; two devices at $3 are $4,380."""
    found = cost("10 requests/s", rent="3 USD/h", devices=2, users=1000, uses=10)
    assert value(found, "bill") == 4380
    assert float(figure(found, "duty").value or 0) == pytest.approx(304166.667 / 36000 / 730)
    assert float(value(found, "request-at-load")) == pytest.approx(4380 / 304166.667)
    assert value(found, "thousand-users") == 4380
    assert value(found, "doubled") == 4380
    assert found.answer.figures()[0].name == "monthly"


def test_a_machine_of_ones_own_draws_power_while_it_waits() -> None:
    """7,200 requests a day at 1/s are 60.83 busy hours of 730: 0.7 kW in them, 0.1 kW in the other 669.17."""
    asked: dict[str, Any] = {"buy": "30000 USD", "power": "700W", "energy": "0.10 USD/kWh", "users": 720, "uses": 10}
    found = cost("1 requests/s", **asked, idle_power="100W")
    busy = 219_000 / 3600
    assert float(value(found, "energy-month")) == pytest.approx(0.07 * busy + 0.01 * (730 - busy), abs=0.01)
    without = cost("1 requests/s", **asked)
    assert float(value(without, "energy-month")) == pytest.approx(0.07 * busy, abs=0.01)
    assert "idle-power" in [note.subject for note in without.answer.assumptions()]
