"""Budgets: never exceeded and never lost, whatever the order of requests, answers, flushes and crashes."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.gateway.asked import Asked
from twinlens.gateway.backend import Price
from twinlens.gateway.limits.gate import Admission, Gate
from twinlens.gateway.limits.keys import new_key
from twinlens.gateway.limits.ledger import Ledger, holding
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.settings import GatewaySettings
from twinlens.system.document import toml_of

KEY, LINES = new_key("team")
BEARER = f"Bearer {KEY}"
DEAR = Price(Decimal("0.0001"))
NOON_S = 1_800_000_000 // 86_400 * 86_400 + 43_200.0


class Clock:
    def __init__(self, now_s: float = NOON_S) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def with_limits(**limits: Any) -> GatewaySettings:
    key = toml_of(LINES)["key"][0] | limits
    return GatewaySettings.model_validate({"backend": ({"name": "a", "url": "http://127.0.0.1:1/v1"},), "key": (key,)})


def asking(tokens: int, prompt_bytes: int = 0, model: str = "m") -> Asked:
    return Asked("chat", model, {}, True, False, prompt_bytes, tokens, 0, False)


def refused(gate: Gate, asked: Asked, dearest: Price | None = None, key: str | None = BEARER) -> Refusal:
    with pytest.raises(Refusal) as caught:
        gate.admit(key, asked, dearest)
    return caught.value


def test_a_key_is_known_again_by_its_salted_hash_alone() -> None:
    gate = Gate(with_limits(models=("m",)))
    assert KEY not in LINES
    assert KEY.split("-", 2)[2] not in LINES
    assert gate.admit(BEARER, asking(5), None).key == "team"
    for wrong in (None, "", KEY, f"Basic {KEY}", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", "Bearer tl-000000000000-x"):
        assert refused(gate, asking(5), key=wrong).status == 401
    assert refused(gate, asking(5, model="dear")).status == 403
    with pytest.raises(BadInput, match="none that"):
        Gate(GatewaySettings.model_validate(with_limits().model_dump() | {"key": ({"name": "x", "hash": "secret"},)}))


def test_two_new_keys_share_nothing() -> None:
    other, lines = new_key("team")
    assert other[:16] != KEY[:16]
    assert lines != LINES


def test_requests_a_minute_come_back_one_by_one() -> None:
    clock = Clock()
    gate = Gate(with_limits(requests_per_min=6), now_s=clock)
    for _ in range(6):
        gate.admit(BEARER, asking(1), None)
    over = refused(gate, asking(1))
    assert (over.status, over.retry_after_s) == (429, pytest.approx(10.0))  # 60 s / 6
    clock.now_s += 10.0
    gate.admit(BEARER, asking(1), None)
    assert refused(gate, asking(1)).retry_after_s == pytest.approx(10.0)


def test_tokens_are_reserved_for_prompt_and_answer_and_settled_from_usage() -> None:
    gate = Gate(with_limits(tokens_per_min=1000), now_s=Clock())
    first = gate.admit(BEARER, asking(600, prompt_bytes=402), None)
    assert first.tokens == 701  # 402 / 4 rounded up, and 600
    over = refused(gate, asking(600))
    assert over.retry_after_s == pytest.approx((600 - 299) * 60 / 1000)
    gate.settle(first, 100, None)
    gate.admit(BEARER, asking(600), None)
    assert refused(gate, asking(301)).status == 429  # 1000 − 100 − 600 = 300
    gate.admit(BEARER, asking(300), None)


def test_more_than_a_minute_holds_is_refused_without_a_time() -> None:
    over = refused(Gate(with_limits(tokens_per_min=100)), asking(101))
    assert over.retry_after_s is None
    assert "no wait" in over.sentence


def test_money_of_a_day_is_exact_and_comes_back_at_midnight() -> None:
    clock = Clock(NOON_S)
    gate = Gate(with_limits(money_per_day="0.30 USD"), now_s=clock)
    for _ in range(3):
        gate.settle(gate.admit(BEARER, asking(1000), DEAR), 1000, Decimal("0.1"))
    over = refused(gate, asking(1), DEAR)
    assert (over.status, over.retry_after_s) == (402, pytest.approx(43_200.0))
    assert refused(gate, asking(1), None).status == 402  # no price is known
    clock.now_s += 43_200
    late = gate.admit(BEARER, asking(3000), DEAR)
    clock.now_s -= 43_200  # a clock that goes back finds the money of that day spent
    assert refused(gate, asking(1), DEAR).status == 402
    gate.settle(late, 10, Decimal("0.001"))  # the money of the day that it was taken from
    clock.now_s += 43_200
    assert gate.taken()["team"][3] == Decimal("0.001")


def test_the_prompt_is_reserved_at_its_price_too() -> None:
    gate = Gate(with_limits(money_per_day="0.30 USD"), now_s=Clock())
    let_in = gate.admit(BEARER, asking(1000, prompt_bytes=402), Price(Decimal("0.0001"), Decimal("0.00002")))
    assert let_in.money == 1000 * Decimal("0.0001") + 101 * Decimal("0.00002")  # 402 / 4 rounded up


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing() -> None:
    clock = Clock()
    gate = Gate(with_limits(requests_per_min=2), now_s=clock)
    gate.admit(BEARER, asking(1), None)
    gate.admit(BEARER, asking(1), None)
    clock.now_s -= 7200
    assert refused(gate, asking(1)).retry_after_s == pytest.approx(30.0)
    clock.now_s += 30
    gate.admit(BEARER, asking(1), None)


def test_limits_that_are_lowered_hold_at_once() -> None:
    clock = Clock()
    gate = Gate(with_limits(requests_per_min=100), now_s=clock)
    for _ in range(10):
        gate.admit(BEARER, asking(1), None)
    gate.renew(with_limits(requests_per_min=5))
    assert refused(gate, asking(1)).retry_after_s == pytest.approx((10 + 1 - 5) * 12.0)
    gate.renew(with_limits(requests_per_min=100))
    gate.admit(BEARER, asking(1), None)


def test_a_second_gateway_of_the_same_state_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "limits.sqlite"
    with holding(state), pytest.raises(BadInput, match="another gateway has the state"), holding(state):
        pass
    with holding(state):
        pass
    state.write_text("no database, but long enough to be taken for a file of some kind" * 20)
    with pytest.raises(BadInput, match="keeps no budgets"):
        Ledger(state)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.integers(0, 1), st.integers(1, 60)),
        st.tuples(st.just("settle"), st.integers(0, 30), st.floats(0, 1)),
        st.tuples(st.just("wait"), st.integers(0, 1), st.integers(0, 40)),
        st.tuples(st.just("flush"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("crash"), st.integers(0, 1), st.just(0)),
    ),
    max_size=40,
)
PRICE, PER_MIN, PER_DAY = Decimal("0.001"), 120, Decimal("0.5")
LIMITS = with_limits(requests_per_min=20, tokens_per_min=PER_MIN, money_per_day=f"{PER_DAY} USD")


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_no_order_exceeds_a_budget_and_none_loses_one(steps: list[tuple[str, int, float]]) -> None:
    """Two processes on one ledger. What was let in stays within the limit plus its refill; money that is not spent is
    there again, except what a killed process had taken ahead or had on its way."""
    clock = Clock()
    ledger = Ledger(":memory:")
    gates = [Gate(LIMITS, ledger, clock), Gate(LIMITS, ledger, clock)]
    open_: list[tuple[int, Admission]] = []
    spent, waited_s, let_in, lost = 0, 0.0, 0, Decimal(0)
    for what, which, much in steps:
        if what == "admit":
            with contextlib.suppress(Refusal):
                open_.append((which, gates[which].admit(BEARER, asking(int(much)), Price(PRICE))))
                let_in += 1
        elif what == "settle" and open_:
            owner, admission = open_.pop(which % len(open_))
            used = int(admission.tokens * much)
            gates[owner].settle(admission, used, used * PRICE)
            spent += used
        elif what == "wait":
            clock.now_s += much
            waited_s += much
        elif what == "flush":
            gates[which].flush()
        elif what == "crash":
            lost += gates[which]._clients["team"].money
            lost += sum((each.money for owner, each in open_ if owner == which), Decimal(0))
            open_ = [each for each in open_ if each[0] != which]
            gates[which] = Gate(LIMITS, ledger, clock)
        reserved = sum(each.tokens for _, each in open_)
        assert spent + reserved <= PER_MIN * (1 + waited_s / 60) + 1e-3
        assert let_in <= 20 * (1 + waited_s / 60) + 1e-3
        assert (spent + reserved) * PRICE <= PER_DAY
    for gate in gates:
        gate.flush()
    on_its_way = sum((each.money for _, each in open_), Decimal(0))
    assert ledger.taken("team", gates[0]._clients["team"].limits, clock.now_s)[2] == spent * PRICE + on_its_way + lost
