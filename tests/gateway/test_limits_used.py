"""What a request used, with the attempts that were given up."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from tests.gateway.test_watch_records import answered, attempt

from twinlens.gateway.backend import Backend, Price, dearest_of, price_of
from twinlens.gateway.limits.used import used_money, used_tokens
from twinlens.gateway.outcome import Attempt, Outcome

HALF, FIFTH = (Decimal(500_000), "USD"), (Decimal(200_000), "USD")


def paid(name: str, prompt: tuple[Decimal, str] | None = None, **more: Any) -> Attempt:
    """An attempt at a backend whose output token costs 0.5, and a prompt token nothing or 0.2."""
    made = attempt(name, 0, **more)
    backend = replace(made.route.backend, token_price=HALF, input_price=prompt)
    made.route = replace(made.route, backend=backend)
    return made


def test_retries_and_hedges_are_paid_for_where_a_server_worked() -> None:
    one = answered(0, attempts=[paid("a", failure="connect"), paid("b")])  # 3 of prompt, 6 of answer
    assert (used_tokens(one), used_money(one)) == (9, Decimal("3.0"))
    lost = paid("a", failure="hedged", output_tokens=2)
    two = answered(0, attempts=[lost, paid("b")])
    assert (used_tokens(two), used_money(two)) == (9 + 3 + 2, Decimal("4.0"))
    broken = answered(0, attempts=[paid("a", failure="broken", output_tokens=6)])
    assert (used_tokens(broken), used_money(broken)) == (9, Decimal("3.0"))


def test_prompt_tokens_are_paid_for_where_they_have_a_price() -> None:
    one = answered(0, attempts=[paid("a", FIFTH, failure="connect"), paid("b", FIFTH)])
    assert used_money(one) == Decimal("3.6")  # 3 × 0.2 + 6 × 0.5
    lost = paid("a", FIFTH, failure="hedged", output_tokens=2)
    assert used_money(answered(0, attempts=[lost, paid("b", FIFTH)])) == Decimal("5.2")  # the prompt was read twice
    assert used_money(answered(0, attempts=[paid("b", FIFTH)], input_tokens=None)) is None
    assert used_money(answered(0, attempts=[paid("b")], input_tokens=None)) == Decimal("3.0")


def test_the_dearest_token_of_each_kind_is_reserved_and_none_where_one_price_is_not_known() -> None:
    a = Backend("a", "", token_price=HALF, input_price=FIFTH)
    b = Backend("b", "", token_price=(Decimal(900_000), "USD"))
    assert price_of(a) == Price(Decimal("0.5"), Decimal("0.2"))
    assert dearest_of([a, b]) == Price(Decimal("0.9"), Decimal("0.2"))
    assert dearest_of([a, b, Backend("c", "", price=(Decimal(2), "USD"))]) is None  # an hour, and no measured rate


def test_what_nobody_counted_is_not_known_and_what_nobody_did_is_nothing() -> None:
    uncounted = answered(0, attempts=[paid("b")], output_tokens=None)
    assert (used_tokens(uncounted), used_money(uncounted)) == (None, None)
    refused = Outcome("r", "", 0, attempts=[attempt("a", 0, failure="status")])
    assert (used_tokens(refused), used_money(refused)) == (0, Decimal(0))
    assert used_money(answered(0)) is None, "no price is known"
