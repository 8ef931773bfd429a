"""The price of an output token at a backend: as its file says, or an hour's price over tokens that were measured."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from twinlens.gateway.backend import Backend

_MILLION = Decimal(1_000_000)
_HOUR_S = 3600


def price_of(backend: Backend) -> Decimal | None:
    """Of one output token, in the currency of its backend; None where nothing says it. An hour's price is divided by
    the output tokens that the backend was measured to make in an hour within its SLO: work on prompts is in it."""
    if backend.token_price is not None:
        return backend.token_price[0] / _MILLION
    point = backend.measured.point if backend.measured is not None else None
    if backend.price is None or point is None or point.output_tokens_per_s <= 0:
        return None
    return backend.price[0] / (Decimal(point.output_tokens_per_s) * _HOUR_S)


def dearest_of(backends: Iterable[Backend]) -> Decimal | None:
    """The dearest output token that a request may come to use; None where a backend has no price."""
    prices = [price_of(each) for each in backends]
    known = [each for each in prices if each is not None]
    return max(known) if known and len(known) == len(prices) else None
