"""Limits of a key as plain arithmetic: what is left, what lacks and for how long, and what a process may take ahead."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, Self

from twinlens.gateway.settings import KeySettings, money_of

_DAY_S = 86_400
_AHEAD = 4
"""Of what is left, a process takes no more than one part in so many ahead: the last requests are counted one by one."""
_LIKE_IT = 64
"""Requests whose money is taken at once; given back within a second where they do not come."""
_NONE = Decimal(0)
_DUST = 1e-6
"""Of sums of parts of a second: no request is refused for a millionth."""


class Amounts(NamedTuple):
    """Requests, tokens and money (in the currency of the limit). A tuple, as two are made for each request."""

    requests: float = 0
    tokens: float = 0
    money: Decimal = _NONE

    def holds(self, need: Amounts) -> bool:
        return self.requests >= need.requests and self.tokens >= need.tokens and self.money >= need.money


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a key: requests and tokens a minute, money a day (UTC); None: no limit."""

    requests: int | None = None
    tokens: int | None = None
    money: Decimal | None = None
    currency: str = ""

    @classmethod
    def of(cls, settings: KeySettings) -> Self:
        """Raises BadInput (TL275) for an amount of money that is none."""
        amount, currency = money_of(settings.money_per_day) or (None, "")
        return cls(settings.requests_per_min, settings.tokens_per_min, amount, currency)

    @property
    def are_none(self) -> bool:
        return self.requests is None and self.tokens is None and self.money is None

    def of_need(self, need: Amounts) -> Amounts:
        """The same, without what has no limit."""
        return Amounts(
            0 if self.requests is None else need.requests,
            0 if self.tokens is None else need.tokens,
            _NONE if self.money is None else need.money,
        )

    def minus(self, requests: float, tokens: float, money: Decimal) -> Amounts:
        """What is left where so much is taken; below 0 where limits were lowered, or more was used than reserved."""
        return Amounts((self.requests or 0) - requests, (self.tokens or 0) - tokens, (self.money or _NONE) - money)

    def taken_of(self, left: Amounts, taken: Amounts) -> tuple[float, float, Decimal]:
        """The other way round, with some more taken."""
        return (
            (self.requests or 0) - left.requests + taken.requests,
            (self.tokens or 0) - left.tokens + taken.tokens,
            (self.money or _NONE) - left.money + taken.money,
        )


def short_of(limits: Limits, left: Amounts, need: Amounts, now_s: float) -> tuple[str, float | None]:
    """Which limit lacks something for this, and the seconds until it does not; "" and 0 where none does. Of several,
    the one that lacks it longest."""
    found: list[tuple[float, str, float | None]] = []
    for name, limit, rest, asked in (("requests", limits.requests, left.requests, need.requests),
                                     ("tokens", limits.tokens, left.tokens, need.tokens)):  # fmt: skip
        if limit is not None and rest < asked - _DUST:
            wait_s = (asked - rest) * 60 / limit if asked <= limit else None
            found.append((_DAY_S if wait_s is None else wait_s, name, wait_s))
    if limits.money is not None and left.money < need.money:
        until_s = _DAY_S - now_s % _DAY_S if need.money <= limits.money else None
        found.append((2 * _DAY_S, "money", until_s))
    return max(found)[1:] if found else ("", 0.0)


def room(limits: Limits, left: Amounts, need: Amounts, extra_s: float) -> Amounts:
    """What a process takes at once: what it needs, and ahead as much as these seconds of the limit, of money as much
    as `_LIKE_IT` such requests, but never more than a small part of what is left."""
    ahead = extra_s / 60
    return Amounts(
        need.requests + max(0.0, min(ahead * (limits.requests or 0), (left.requests - need.requests) / _AHEAD)),
        need.tokens + max(0.0, min(ahead * (limits.tokens or 0), (left.tokens - need.tokens) / _AHEAD)),
        need.money + max(_NONE, min(_LIKE_IT * need.money, (left.money - need.money) / _AHEAD)),
    )
