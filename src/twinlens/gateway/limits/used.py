"""Tokens and money that a request used, with all its attempts: retries and hedges are paid for too."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from twinlens.gateway.outcome import Attempt, Failure, Outcome

Price = Callable[[Attempt], Decimal | None]
"""The price of an output token at the backend of an attempt, in which the work on prompts is, as it was measured; None
where it is not known."""
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


def used_money(outcome: Outcome, price: Price) -> Decimal | None:
    """Of the output tokens of all attempts, each at the price of its backend; None where the tokens of an answer or a
    price are not known."""
    worked = [each for each in outcome.attempts if each.failure not in _FREE]
    if worked and outcome.output_tokens is None:
        return None
    served = next((each for each in reversed(worked) if not each.failure), worked[-1] if worked else None)
    total = Decimal(0)
    for each in worked:
        if (costs := price(each)) is None:
            return None
        total += costs * ((outcome.output_tokens or 0) if each is served else each.output_tokens)
    return total


def measured_price(attempt: Attempt) -> Decimal | None:
    """As the router knew it when it chose: the cost of an output token at the measured point."""
    cost = attempt.route.chosen.cost
    return None if cost is None else Decimal(repr(cost))
