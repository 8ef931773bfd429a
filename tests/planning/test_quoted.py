"""Quotes are joined with their like: by tier, by date, and by their median."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.api.plan.cost import cost
from twinlens.api.plan.roi import roi
from twinlens.planning.cost.machine import joined
from twinlens.spec.catalogue import shipped
from twinlens.spec.money import Price


def quote(kind: str, amount: object, date: str | None = "2026-08-19") -> Price:
    money = Decimal(str(amount))
    return Price(device="l4", kind=kind, low=money, high=money, date=date, source="a test")  # type: ignore[arg-type]


def test_a_rent_is_the_median_of_what_is_paid_on_demand() -> None:
    """Of 5.98, 6.08 and 14.24 on demand it is 6.08; 2.65 with a commitment is another price."""
    found = joined("rent", shipped().prices_of("b200-sxm-180gb"))
    assert found is not None
    assert (found.typical, found.money.low, found.money.high) == (Decimal("6.08"), Decimal("5.98"), Decimal("14.24"))
    reserved = joined("reserved", shipped().prices_of("b200-sxm-180gb"))
    assert reserved is not None
    assert reserved.typical == Decimal("2.65")


def test_a_spot_price_is_no_rent() -> None:
    assert joined("rent", [quote("spot-hour", 1), quote("reserved-hour", 2)]) is None


def test_quotes_of_another_year_and_undated_ones_are_not_joined_with_new_ones() -> None:
    old, undated = quote("on-demand-hour", 9, "2025-01-01"), quote("on-demand-hour", 7, None)
    found = joined("rent", [old, undated, quote("on-demand-hour", 3), quote("on-demand-hour", 5, "2026-03")])
    assert found is not None
    assert (found.typical, found.money.high) == (4, 5)
    alone = joined("rent", [undated])
    assert alone is not None
    assert alone.notes[0].subject == "like-undated"


def test_no_quote_joins_another_tier_or_a_range_of_two_years() -> None:
    for price in shipped().prices:
        assert price.date is None or "valid to 2025" not in price.source or price.date.startswith("2025"), price


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=9))
def test_the_price_lies_among_its_quotes_and_one_wild_quote_cannot_move_it_beyond_the_others(
    amounts: list[int],
) -> None:
    quotes = [quote("on-demand-hour", each) for each in amounts]
    found = joined("rent", [*quotes, *quotes, quote("on-demand-hour", 10**6)])
    assert found is not None
    assert found.typical is not None
    assert min(amounts) <= found.typical <= max(amounts)


@pytest.mark.parametrize("device", ["rtx-4090", "rtx-5090"])
def test_an_undated_price_is_used_alone_and_said_to_be_unverified(device: str) -> None:
    notes = roi(device=device, rent="1 USD/h", energy="0.1 USD/kWh").answer.assumptions()
    assert "like-undated" in [each.subject for each in notes]


@pytest.mark.parametrize("device", ["b200", "rtx-pro-6000-blackwell", "h100"])
def test_what_is_bought_and_rented_has_an_answer_of_the_catalogue(device: str) -> None:
    assert roi(device=device, energy="0.1 USD/kWh").answer.break_even()


def test_the_readme_s_example_costs_whole_machines() -> None:
    found = cost(model="70B", device="B200", devices=2, users=1000, uses=10).answer
    assert found.month is not None
    assert found.month.bill.number == pytest.approx(2 * 6.08 * 730)
