"""Every policy, whatever the backends: only those are chosen that may be, each once, and only by what is known."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, get_args

import pytest
from benchmarks.gateway_routing import LAW, asked_of, measured, started
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.gateway.asked import Asked
from twinlens.gateway.backend import Backend
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.routing.route import Route
from twinlens.gateway.routing.router import Router
from twinlens.gateway.settings import AliasSettings, BackendSettings, GatewaySettings, Policy
from twinlens.simulation.rules import Rules

KNOWN = measured(LAW, Rules(max_num_seqs=64), 60, 400, started(0))
S = 1_000_000_000
ASKED = asked_of(1600, 100)  # 400 tokens of prompt, 100 of answer
POLICIES: tuple[str, ...] = get_args(Policy)
SLO = {"slo_ttft_s": 0.1, "slo_tpot_s": 0.05}


@dataclass(frozen=True, slots=True)
class One:
    """A backend as drawn. `price`: USD a million tokens; `joules`: of a token, `busy`: requests in flight."""

    is_predicted: bool = True
    busy: int = 0
    price: int | None = None
    joules: float | None = None
    window: int | None = None
    model: str = "m"
    rests: bool = False
    quality: float | None = None

    @property
    def fits(self) -> bool:
        return self.model == "m" and not self.rests and self.window != 100

    def backend(self, name: str) -> Backend:
        assert KNOWN.point is not None
        known = replace(KNOWN, point=replace(KNOWN.point, joules_per_token=self.joules))
        return Backend(
            name, "", self.model, token_price=None if self.price is None else (Decimal(self.price), "USD"),
            longest_tokens=self.window, quality={} if self.quality is None else {"mmlu": self.quality},
            measured=known, identity="same" if self.is_predicted else "not the one measured",
        )  # fmt: skip


ONES = st.builds(
    One, is_predicted=st.booleans(), busy=st.integers(0, 12), price=st.none() | st.integers(1, 9),
    joules=st.none() | st.floats(0.1, 2.0), window=st.sampled_from((None, 100, 4000)),
    model=st.sampled_from(("m", "m", "m", "other")), rests=st.sampled_from((False, False, False, True)),
    quality=st.none() | st.floats(0, 1),
)  # fmt: skip
GROUPS = st.lists(ONES, min_size=1, max_size=5)


def router_of(ones: Sequence[tuple[str, One]], **more: Any) -> Router:
    named = tuple(BackendSettings(name=name, url="http://x") for name, _ in ones)
    router = Router([each.backend(name) for name, each in ones], GatewaySettings(backend=named, **more))
    for name, each in ones:
        for _ in range(each.busy):
            router.states[name].load.begin(400, S, waits=False)
        if each.rests:
            router.states[name].health.end(S, "connect", is_trial=False, retry_after_s=50.0, is_busy=False)
    return router


def named(group: Sequence[One]) -> list[tuple[str, One]]:
    return [(f"b{place}", each) for place, each in enumerate(group)]


def asked(router: Router, tried: frozenset[str] = frozenset(), what: Asked = ASKED) -> Route | None:
    with contextlib.suppress(Refusal):
        return router.route(what, tried, 2 * S)
    return None


def sent(router: Router, count: int) -> list[str]:
    """Where so many requests of different beginnings go; each stays in flight."""
    found = []
    for number in range(count):
        route = asked(router, what=replace(ASKED, prefix=number))
        if route is not None:
            found.append(route.backend.name)
            router.begin(route, ASKED, 2 * S)
    return found


@settings(max_examples=60, deadline=None)
@given(GROUPS, st.sampled_from(POLICIES), st.integers(0, 7))
def test_a_choice_fits_and_each_backend_is_tried_once(group: list[One], policy: str, before: int) -> None:
    ones = named(group)
    router, fit = router_of(ones, policy=policy, **SLO), {name for name, each in ones if each.fits}
    sent(router, before)
    tried: list[str] = []
    while (route := asked(router, frozenset(tried))) is not None:
        assert route.chosen.out == ""
        assert {each.backend for each in route.candidates if not each.out} == fit - set(tried)
        tried.append(route.backend.name)
    assert Counter(tried) == Counter(fit)


@settings(max_examples=60, deadline=None)
@given(GROUPS, st.sampled_from(("least-ttft", "least-cost", "least-energy", "prefix")), st.randoms())
def test_the_order_of_backends_in_the_file_changes_no_choice(group: list[One], policy: str, order: Any) -> None:
    """But for ties: each backend has a load, a price and joules of its own here."""
    apart = [
        replace(each, busy=2 * place, price=each.price and 1 + place, joules=each.joules and 1.0 + place)
        for place, each in enumerate(group)
    ]
    ones = named(apart)
    other = order.sample(ones, len(ones))
    first, second = asked(router_of(ones, policy=policy, **SLO)), asked(router_of(other, policy=policy, **SLO))
    assert (first and first.backend.name) == (second and second.backend.name)
    assert (first and first.reason) == (second and second.reason)


UNUSABLE = st.sampled_from((One(window=100), One(model="other"), One(rests=True), One(window=100, price=1, joules=0.1)))


@settings(max_examples=60, deadline=None)
@given(GROUPS, st.sampled_from(POLICIES), UNUSABLE, st.integers(0, 5))
def test_a_backend_that_cannot_be_used_changes_no_choice(
    group: list[One], policy: str, unusable: One, place: int
) -> None:
    ones = named(group)
    more = [*ones[:place], ("unusable", unusable), *ones[place:]]
    assert sent(router_of(ones, policy=policy, **SLO), 9) == sent(router_of(more, policy=policy, **SLO), 9)


@settings(max_examples=60, deadline=None)
@given(GROUPS, st.sampled_from(("least-cost", "least-energy")), st.booleans())
def test_what_is_not_known_is_never_chosen_as_the_least(group: list[One], policy: str, has_slo: bool) -> None:
    route = asked(router_of(named(group), policy=policy, **(SLO if has_slo else {})))
    if route is None or not route.reason.startswith("least "):
        return
    able = [each for each in route.candidates if not each.out]
    amounts = [each.cost if policy == "least-cost" else each.joules for each in able]
    chosen = route.chosen.cost if policy == "least-cost" else route.chosen.joules
    assert chosen is not None
    if has_slo:
        assert route.chosen.ttft_s is not None
        assert route.chosen.ttft_s.high <= SLO["slo_ttft_s"]
    else:
        assert chosen == min(each for each in amounts if each is not None)


@settings(max_examples=60, deadline=None)
@given(GROUPS, st.floats(0.1, 0.9), st.floats(0.5, 9.5))
def test_an_alias_takes_what_is_known_to_meet_it_and_says_why_not_the_others(
    group: list[One], least: float, most: float
) -> None:
    ones = named(group)
    alias = AliasSettings(name="auto", least_quality={"mmlu": least}, most_usd_per_million=most)
    meets = {
        name for name, each in ones
        if each.quality is not None and each.quality >= least and each.price is not None and each.price <= most
    }  # fmt: skip
    router, what = router_of(ones, alias=(alias,)), replace(ASKED, model="auto")
    route = asked(router, what=what)
    if route is None:
        with pytest.raises(Refusal, match="." if meets else "no backend meets what 'auto' asks for"):
            router.route(what, frozenset(), 2 * S)
        return
    assert route.backend.name in meets
    why = {each.backend: each.out for each in route.candidates}
    for name, each in ones:
        if each.quality is None:
            assert why[name] == "its mmlu was never evaluated"
        elif each.quality >= least and each.price is None:
            assert why[name] == "what one of its tokens costs in USD is not known"


def test_without_an_alias_auto_is_any_backend_that_may_be_asked() -> None:
    router = router_of(named([One(rests=True), One(model="other"), One()]), policy="round-robin")
    taken = {route.backend.name for _ in range(6) if (route := asked(router, what=replace(ASKED, model="auto")))}
    assert taken == {"b1", "b2"}


def test_the_most_that_a_token_may_cost_is_in_the_refusal() -> None:
    alias = AliasSettings(name="cheap", most_usd_per_million=2.0)
    router = router_of(named([One(price=9), One()]), alias=(alias,))
    with pytest.raises(Refusal) as told:
        router.route(replace(ASKED, model="cheap"), frozenset(), S)
    assert told.value.status == 503
    assert "b0: a million of its output tokens cost 9 USD, above 2" in told.value.sentence
    assert "b1: what one of its tokens costs in USD is not known" in told.value.sentence


def test_the_least_joules_are_taken_within_the_slo_and_the_soonest_without_any() -> None:
    group = [One(joules=0.9), One(joules=0.2), One(joules=None)]
    route = asked(router_of(named(group), policy="least-energy"))
    assert route is not None
    assert (route.backend.name, route.reason) == ("b1", "least energy of 2 within the SLO")
    late = [One(joules=0.9), replace(group[1], busy=60), One(joules=None)]
    route = asked(router_of(named(late), policy="least-energy", slo_ttft_s=0.05))
    assert route is not None
    assert route.backend.name == "b0"
    unknown = asked(router_of(named([One(), One(busy=9)]), policy="least-energy"))
    assert unknown is not None
    assert unknown.reason == "no energy is known of one within the SLO; the least predicted TTFT"


@pytest.mark.parametrize("is_predicted", [True, False])
def test_of_two_drawn_at_random_the_better_one_is_taken(is_predicted: bool) -> None:
    group = [One(is_predicted=is_predicted, busy=10 * place) for place in range(4)]
    router = router_of(named(group), policy="two-choices")
    routes = [asked(router) for _ in range(400)]
    taken = Counter(each.backend.name for each in routes if each is not None)
    assert [taken[f"b{place}"] for place in range(4)] == pytest.approx([175, 125, 75, 25], abs=35)  # 7, 5, 3, 1 of 16
    assert {each.reason.rpartition(" ")[2] for each in routes if each} == {"TTFT" if is_predicted else "requests"}


def test_a_prompt_that_is_charged_makes_long_prompts_dear() -> None:
    plain, prompts = One(price=5).backend("plain"), One(price=2).backend("prompts")
    prompts = replace(prompts, input_price=(Decimal(1), "USD"))
    settings_ = GatewaySettings(
        policy="least-cost", backend=tuple(BackendSettings(name=each, url="http://x") for each in ("plain", "prompts"))
    )
    router = Router([plain, prompts], settings_)
    short, long = asked(router, what=asked_of(40, 60)), asked(router, what=asked_of(4000, 60))
    assert short is not None
    assert long is not None
    assert (short.backend.name, long.backend.name) == ("prompts", "plain")
    assert long.candidates[1].cost == pytest.approx(2e-6 + 1e-6 * 1000 / 60)
