"""What a request used, with the attempts that were given up."""

from __future__ import annotations

from decimal import Decimal

from tests.gateway.test_watch_records import answered, attempt

from twinlens.gateway.limits.used import measured_price, used_money, used_tokens
from twinlens.gateway.outcome import Outcome


def test_retries_and_hedges_are_paid_for_where_a_server_worked() -> None:
    one = answered(0)  # 3 of prompt, 6 of answer; a first try that reached nobody
    assert (used_tokens(one), used_money(one, measured_price)) == (9, Decimal("3.0"))  # at 0.5 a token
    lost = attempt("a", 0, failure="hedged", output_tokens=2)
    two = answered(0, attempts=[lost, attempt("b", 0)])
    assert (used_tokens(two), used_money(two, measured_price)) == (9 + 3 + 2, Decimal("4.0"))
    broken = answered(0, attempts=[attempt("a", 0, failure="broken", output_tokens=6)])
    assert (used_tokens(broken), used_money(broken, measured_price)) == (9, Decimal("3.0"))


def test_what_nobody_counted_is_not_known_and_what_nobody_did_is_nothing() -> None:
    uncounted = answered(0, output_tokens=None)
    assert (used_tokens(uncounted), used_money(uncounted, measured_price)) == (None, None)
    refused = Outcome("r", "", 0, attempts=[attempt("a", 0, failure="status")])
    assert (used_tokens(refused), used_money(refused, measured_price)) == (0, Decimal(0))
    assert used_money(answered(0), lambda _: None) is None
