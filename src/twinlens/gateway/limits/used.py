"""Tokens and money that a request used, with all its attempts: retries and hedges are paid for too."""

from __future__ import annotations

from decimal import Decimal

from twinlens.gateway.backend import price_of
from twinlens.gateway.outcome import Failure, Outcome

_FREE: frozenset[Failure] = frozenset({"connect", "status"})
"""A server that was not reached, or that refused, has done no work."""


def used_tokens(outcome: Outcome) -> int | None:
    """Of prompt and answer as counted, and of each attempt that was given up: its prompt, as the last one counted it,
    and what it had sent. None: nobody counted; 0 where no backend was asked."""
    worked = [each for each in outcome.attempts if each.failure not in _FREE]
    if not worked:
        return 0
    if outcome.input_tokens is None or outcome.output_tokens is None:
        return None
    others = [each for each in worked if each.failure]
    if len(others) == len(worked):  # none went on to the end: what was counted is of the last of them
        others = others[:-1]
    return (
        outcome.input_tokens + outcome.output_tokens
        + sum(outcome.input_tokens + each.output_tokens for each in others)
    )  # fmt: skip


def used_money(outcome: Outcome) -> Decimal | None:
    """Of all attempts, each at the price of its backend: its output tokens, and where they are charged those of the
    prompt, as the last one counted them; None where a count or a price is not known."""
    worked = [each for each in outcome.attempts if each.failure not in _FREE]
    if worked and outcome.output_tokens is None:
        return None
    served = next((each for each in reversed(worked) if not each.failure), worked[-1] if worked else None)
    total = Decimal(0)
    for each in worked:
        price = price_of(each.route.backend)
        if price is None or (price.input and outcome.input_tokens is None):
            return None
        made = outcome.output_tokens if each is served else each.output_tokens
        total += price.output * (made or 0) + price.input * (outcome.input_tokens or 0)
    return total
