"""A choice names what can be bought: whole boards and racks, their power, and what a million tokens cost."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinlens as tl
from twinlens.planning.choose.candidate import Candidate, Limit, Ranking, ranked
from twinlens.planning.choose.search import reach_of
from twinlens.planning.choose.wanted import Offer, Paid, offer_of
from twinlens.planning.cost.machine import Priced
from twinlens.planning.sold import bought, node_power
from twinlens.spec.catalogue import catalogue_of, shipped
from twinlens.spec.device import load_device
from twinlens.theory.figure import Figure


def inference(model: str = "8B", **options: Any) -> Ranking:
    found = tl.plan.choose(model, **{"inference": 100, "users": 1, "context": "4K", **options}).answer.inference
    assert found is not None
    return found


@given(st.integers(1, 600), st.sampled_from([1, 4, 8, 16, 72]))
def test_whole_units_hold_what_is_used_and_not_one_unit_more(count: int, unit: int) -> None:
    whole = int(bought(count, unit))
    assert whole % unit == 0
    assert count <= whole < count + unit


def test_every_candidate_is_of_whole_units_and_uses_no_more_than_it_buys() -> None:
    for one in tl.plan.choose("70B", training=40, users=100, context="4K", speed=20).answer.rankings:
        assert one.candidates
        for each in one.candidates:
            assert each.devices % shipped().device(each.device).sold_in == 0
            assert 0 < each.used <= each.devices
            assert each.used == prod(each.split.get(name, 1) for name in ("tensor", "pipeline", "copies", "data"))


def test_a_hospital_with_3_kw_is_not_told_one_module_of_a_board() -> None:
    """One MI350X is sold as a board of eight, in a machine of 8 × 1,000 W × 1.8."""
    found = inference(compliance="hipaa", ecc=True, power="3kW")
    assert found.candidates
    assert all((each.power_w or 9e9) <= 3000 for each in found.candidates)
    (why,) = [each.reason for each in found.rejected if each.device == "mi350x"]
    assert (why.subject, why.numbers["devices"]) == ("power", 8)
    assert why.numbers["needed_w"] == pytest.approx(8 * 1000 * 1.8)


def test_power_is_that_of_the_whole_machine_quoted_where_somebody_quotes_it() -> None:
    quoted, modelled = node_power(load_device("h100-sxm-80gb"), 8), node_power(load_device("l40s"), 2)
    assert quoted is not None
    assert modelled is not None
    assert (quoted.number, quoted.origin) == (10_200, "quoted")
    assert (modelled.number, modelled.origin) == (pytest.approx(2 * 350 * 1.25 + 300), "modelled")
    assert [each.subject for each in modelled.assumptions] == ["host-card"]
    assert node_power(load_device("tpu-v5e"), 4) is None


def test_a_million_tokens_by_hand() -> None:
    """8 × $6.08 an hour for 8 × 500 tokens/s: 48.64 / 14.4 M tokens, $3.378 a million."""
    offer = offer_of(load_device("b200-sxm-180gb"), 8, Figure("rate-each", 500.0, "tokens/s"), Paid(), shipped())
    assert offer.million.number == pytest.approx(8 * 6.08 / (8 * 500 * 3600) * 1e6)
    assert offer.price is not None
    assert (offer.price.tier, offer.price.when) == ("on-demand", "2026-04-13")


def test_a_million_tokens_is_what_plan_cost_says_of_the_same_machine() -> None:
    found = next(each for each in inference("70B", users=16).candidates if each.device == "h200-sxm-141gb")
    answer = 512
    rate = found.rate.number * found.devices / answer
    cost = tl.plan.cost(device="h200", devices=found.devices, throughput=f"{rate} requests/s").answer
    each = next(figure for figure in cost.figures() if figure.name == "request")
    assert found.offer.million.number == pytest.approx(each.number / answer * 1e6, rel=1e-6)


def test_what_nobody_quotes_has_no_price_and_never_0() -> None:
    for each in inference("70B", users=16).candidates:
        assert each.offer.million.value is None or each.offer.million.value > 0
        assert (each.offer.price is None) == (each.offer.million.value is None)
        if each.offer.million.value is None:
            assert each.offer.million.reason is not None


def test_one_s_own_floor_is_paid_by_purchase_and_idle_hours_too(tmp_path: Any) -> None:
    (tmp_path / "prices.toml").write_text(
        '[[price]]\ndevice = "l40s"\nkind = "purchase"\nlow = 7300\nhigh = 7300\ndate = "2026-11-01"\n'
        'source = "an offer"\n',
        encoding="utf-8",
    )
    whole = catalogue_of(tmp_path)
    rate = Figure("rate-each", 100.0, "tokens/s")
    full, half = (offer_of(load_device("l40s"), 1, rate, Paid("buy", busy), whole) for busy in (1.0, 0.5))
    assert full.million.number == pytest.approx(7300 / (36 * 730) / (100 * 3600) * 1e6)
    assert half.million.number == pytest.approx(2 * full.million.number)


def _candidate(name: str, rate: float, cost: float | None) -> Candidate:
    paid = Priced("rent", tl_money(cost)) if cost is not None else None
    unknown = node_power(load_device("l4"), 1)
    million = (
        Figure("million-each", Decimal(str(cost)), "USD/Mtoken")
        if cost is not None
        else offer_of(load_device("gb300"), 72, Figure("rate-each", rate, "tokens/s"), Paid(), shipped()).million
    )
    figure = Figure("rate-each", rate, "tokens/s", low=rate * 0.7, high=rate * 1.4, level=0.9)
    return Candidate(name, "bf16", 1, 1, {}, figure, (), Limit("bandwidth", {"bandwidth": 1.1}),
                     Offer(unknown, paid, million), 0.5)  # fmt: skip


def tl_money(cost: float) -> Any:
    from twinlens.spec.money import read_money

    return read_money(f"{cost} USD/h")


@given(
    st.lists(st.tuples(st.floats(1, 1e4), st.one_of(st.none(), st.floats(0.01, 100))), min_size=1, max_size=8),
    st.floats(0.01, 100),
    st.floats(0.001, 1),
)
def test_a_cheaper_candidate_that_is_otherwise_equal_never_ranks_lower(
    others: list[tuple[float, float | None]], cost: float, less: float
) -> None:
    rate = others[0][0]
    many = [_candidate(str(place), *each) for place, each in enumerate(others)]
    both = [_candidate("dear", rate, round(cost + less, 6)), _candidate("cheap", rate, round(cost, 6))]
    found = [each.device for each in ranked([*many, *both], lambda *_: 1.5)]
    assert found.index("cheap") < found.index("dear")


def test_of_tied_systems_the_cheaper_stands_first_and_of_others_the_faster() -> None:
    found = ranked([_candidate("fast", 140, None), _candidate("cheap", 100, 1.0), _candidate("slow", 60, 0.1)],
                   lambda *_: 1.5)  # fmt: skip
    assert [(each.device, each.rank) for each in found] == [("cheap", (1, 2)), ("fast", (1, 2)), ("slow", (3, 3))]


def test_where_no_pair_was_measured_bands_must_lie_apart() -> None:
    found = ranked([_candidate("one", 100, None), _candidate("two", 160, None)], lambda *_: None)
    assert [each.rank for each in found] == [(1, 2), (1, 2)]
    assert reach_of("no such metric", device=True, engine=True, model=True) is None


def test_a_comparison_reaches_less_far_than_two_bands_and_further_for_what_is_unseen() -> None:
    """Own bands of two seen systems lie apart from 1.43 / 0.63 = 2.3 on; compared, from 1.58 on."""
    assert 1.3 < (reach_of("tpot", device=True, engine=True, model=True) or 0) < 1.425 / 0.6265
    unseen = reach_of("tpot", device=False, engine=False, model=True)
    assert unseen == max(reach_of("tpot", device=False, engine=True, model=True) or 0,
                         reach_of("tpot", device=True, engine=False, model=True) or 0)  # fmt: skip


def test_fewer_tie_with_the_first_than_by_bands_alone() -> None:
    """12 to 17 of 48 to 63 tied with the first where each band stood alone."""
    found = tl.plan.choose("70B", training=40, users=100, context="4K", speed=20).answer
    for one in found.rankings:
        by_bands = ranked(one.candidates, lambda *_: None)
        ties, before = (sum(each.rank[0] == 1 for each in some) for some in (one.candidates, by_bands))
        assert ties < before
        assert {replace(each, rank=(1, 1)).device for each in one.candidates} == {each.device for each in by_bands}
