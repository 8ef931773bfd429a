"""Requests go where the first token is predicted soonest; what nobody can serve is refused before any backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from benchmarks.gateway_routing import LAW, asked_of, held, measured, play, started, times

from twinlens.gateway.asked import Asked
from twinlens.gateway.backend import Backend
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.routing.route import Ticket
from twinlens.gateway.routing.router import Router
from twinlens.gateway.settings import AliasSettings, BackendSettings, GatewaySettings, money_of
from twinlens.simulation.rules import Rules

ASKED = asked_of(1600, 100)
S = 1_000_000_000
KNOWN = measured(LAW, Rules(max_num_seqs=64), 60, 400, started(0))


def router_of(*backends: Backend, **settings: Any) -> Router:
    named = tuple(BackendSettings(name=each.name, url="http://x") for each in backends)
    return Router(backends, GatewaySettings(backend=named, **settings))


def known(name: str, **more: Any) -> Backend:
    return Backend(name, "", "m", measured=KNOWN, identity="same", **more)


def sent(router: Router, asked: Asked = ASKED, now_ns: int = S) -> Ticket:
    return router.begin(router.route(asked, frozenset(), now_ns), asked, now_ns)


def test_predictions_of_a_simulated_engine_are_right_in_the_middle_and_hold_nine_in_ten() -> None:
    told = play([LAW], rate_per_s=8.0, requests=600).told
    ratios = sorted(each.ttft_s / each.predicted.middle for each in told if each.predicted)
    assert 0.9 < ratios[len(ratios) // 2] < 1.1
    for which in ("ttft", "tpot"):
        good, of = held(told, which)
        assert of > 500
        assert 0.86 < good / of < 0.95


def test_a_backend_that_grows_slower_gets_bands_that_hold_again() -> None:
    told = play([LAW], rate_per_s=5.0, requests=900, change=lambda at: 2.0 if at > 0.4 else 1.0).told
    good, of = held(told[-350:])
    assert good / of > 0.85


def test_while_a_queue_grows_the_law_is_right_in_the_middle_and_bands_are_given_only_where_they_hold() -> None:
    told = play([LAW], rate_per_s=40.0, requests=900).told  # the engine serves about 35
    ratios = sorted(each.ttft_s / each.law_ttft_s for each in told if each.law_ttft_s)
    assert 0.85 < ratios[len(ratios) // 2] < 1.15
    for which in ("ttft", "tpot"):
        good, of = held(told, which)
        assert 100 < of < 800, "nothing is predicted where more wait than bands were learnt of"
        assert good / of > 0.84


def test_a_backend_with_a_queue_does_not_take_over_from_one_that_misses_the_slo_by_little() -> None:
    router = router_of(known("a"), replace(known("b"), identity="not the one measured"), slo_ttft_s=1e-6)
    assert sent(router).backend == "b", "nothing is known of it, and the other one is too late"
    for _ in range(60):
        router.begin(replace(router.route(ASKED, frozenset({"a"}), S)), ASKED, S)
    assert sent(router).backend == "a", "it is too late too, and has no queue"


def test_a_slower_backend_is_sent_less() -> None:
    told = play([LAW, times(LAW, 3.0)], rate_per_s=16.0, requests=500).told
    slow = sum(each.backend == "b1" for each in told)
    assert slow < 0.35 * len(told)


def test_requests_in_flight_are_counted_to_zero_again() -> None:
    router = play([LAW, LAW], rate_per_s=20.0, requests=200).router
    for state in router.states.values():
        assert (state.load.waiting, state.load.decoding, state.load.firsts_ns) == (0, 0, 0)
        assert (state.load.prompts, state.load.waiting_tokens) == (0.0, 0.0)


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    router = router_of(replace(known("a"), model="llama-8b"))
    with pytest.raises(Refusal, match="did you mean 'llama-8b'") as told:
        router.route(replace(ASKED, model="llama-8B"), frozenset(), S)
    assert told.value.status == 404


def test_a_prompt_beyond_every_window_is_refused_and_a_longer_window_takes_it() -> None:
    small, large = known("small", longest_tokens=400), known("large", longest_tokens=4000)
    with pytest.raises(Refusal, match="more than the 400 tokens") as told:
        router_of(small).route(asked_of(1600, 400), frozenset(), S)
    assert told.value.status == 400
    assert router_of(small, large).route(asked_of(1600, 400), frozenset(), S).backend.name == "large"


def test_where_all_are_full_the_seconds_until_one_is_free_come_from_the_law() -> None:
    router = router_of(known("a", most_in_flight=2))
    for _ in range(2):
        sent(router)
    with pytest.raises(Refusal, match="as many requests as it may have") as told:
        sent(router)
    assert told.value.status == 429
    answer_s = 60 * LAW.seconds(2, 800)
    assert told.value.retry_after_s == pytest.approx(answer_s / 2, rel=0.3)


def test_a_backend_that_refuses_connections_rests_and_one_request_tries_it_again() -> None:
    router = router_of(known("a"), known("b"), policy="round-robin")
    ticket = next(each for each in (sent(router), sent(router)) if each.backend == "a")
    router.end(ticket, S, "connect", None)
    assert {sent(router, now_ns=S + 1).backend for _ in range(6)} == {"b"}
    later = [sent(router, now_ns=3 * S) for _ in range(6)]
    trials = [each for each in later if each.backend == "a"]
    assert [each.is_trial for each in trials] == [True]
    router.first(trials[0], 4 * S)
    router.end(trials[0], 5 * S, "", None, 10)
    assert {sent(router, now_ns=6 * S).backend for _ in range(4)} == {"a", "b"}


def test_retry_after_of_a_backend_is_kept_to() -> None:
    router = router_of(known("a"))
    router.end(sent(router), S, "status", None, retry_after_s=7.0, is_busy=True)
    with pytest.raises(Refusal, match="too much to do") as told:
        router.route(ASKED, frozenset(), 2 * S)
    assert (told.value.status, told.value.retry_after_s) == (429, pytest.approx(6.0))
    assert router.route(ASKED, frozenset(), 8 * S + 1).backend.name == "a"


def test_answers_that_take_long_and_requests_that_are_wrong_rest_nobody() -> None:
    router = router_of(known("a"))
    for failure in ("late", "hedged") * 10:
        router.end(sent(router), 900 * S, failure, None)  # type: ignore[arg-type]
    assert router.route(ASKED, frozenset(), 900 * S).backend.name == "a"


def test_a_model_that_was_never_evaluated_is_not_chosen_by_a_score() -> None:
    alias = AliasSettings(name="auto", least_quality={"mmlu": 0.7})
    router = router_of(known("a"), known("b", quality={"mmlu": 0.8}), known("c", quality={"mmlu": 0.6}), alias=(alias,))
    route = router.route(replace(ASKED, model="auto"), frozenset(), S)
    assert route.backend.name == "b"
    out = {each.backend: each.out for each in route.candidates if each.out}
    assert out == {"a": "its mmlu was never evaluated", "c": "its mmlu is 0.6, below 0.7"}


def test_the_cheapest_within_the_slo_is_taken_and_without_one_the_soonest() -> None:
    cheap, dear = known("cheap", price=money_of("1 USD")), known("dear", price=money_of("9 USD"))
    router = router_of(dear, cheap, policy="least-cost", slo_ttft_s=0.2)
    chosen = [sent(router).backend for _ in range(40)]
    assert chosen[:3] == ["cheap"] * 3
    assert "dear" in chosen, "the cheap one leaves the SLO as it fills"


def test_a_beginning_goes_back_to_where_it_was() -> None:
    router = router_of(*(known(f"b{n}") for n in range(4)), policy="prefix")
    homes = {prefix: sent(router, asked_of(1600, 100, prefix=prefix)).backend for prefix in range(8)}
    assert homes == {prefix: sent(router, asked_of(1600, 100, prefix=prefix)).backend for prefix in range(8)}
    assert len(set(homes.values())) == 4


def test_one_that_is_not_the_one_measured_is_asked_without_a_prediction() -> None:
    other = replace(known("other"), identity="not the one measured")
    router = router_of(known("a"), other)
    route = router.route(ASKED, frozenset(), S)
    assert route.backend.name == "a"
    assert [each.ttft_s is None for each in route.candidates] == [False, True]
    taken = [sent(router).backend for _ in range(12)]
    assert "other" in taken, "it takes over where the predicted one has many more"
