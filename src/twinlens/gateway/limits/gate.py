"""The gate: who may ask, how much, and what it may cost. Reserved before, settled from what was used."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from twinlens.gateway.asked import Asked
from twinlens.gateway.backend import Price
from twinlens.gateway.limits.budget import Amounts, Limits
from twinlens.gateway.limits.keys import Keys, refuse_model
from twinlens.gateway.limits.ledger import Grant, Ledger, day_of
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.settings import GatewaySettings

FLUSH_S = 1.0
"""How often a process gives back what it took ahead."""
UNSAID_TOKENS = 1024
"""Reserved for an answer whose request does not say how long it may become."""
_BYTES_PER_TOKEN = 4
_NOTHING = Decimal(0)


class Admission(NamedTuple):
    """A request that was let in, with what was reserved. `key`: the name of its client, "" where no keys are asked
    for; `day`: whose money it takes."""

    key: str
    tokens: int = 0
    money: Decimal = _NOTHING
    day: str = ""


@dataclass(slots=True)
class _Client:
    """A key in this process. `free`: taken from the ledger and not reserved; below 0 where more was used than that."""

    limits: Limits
    requests: float = 0
    tokens: float = 0
    money: Decimal = _NOTHING
    day: str = ""
    is_touched: bool = False


class Gate:
    """Keys and their limits, of one process of a gateway. Without a ledger it keeps them in its own memory.

    `now_s`: the wall clock. Raises BadInput (TL280) for a hash of a key that is none.
    """

    def __init__(
        self, settings: GatewaySettings, ledger: Ledger | None = None, now_s: Callable[[], float] = time.time
    ) -> None:
        self._ledger, self._now_s = ledger, now_s
        self._clients: dict[str, _Client] = {}
        self._keys = Keys(())
        self.renew(settings)

    def renew(self, settings: GatewaySettings) -> None:
        """Other keys and limits from now on. What was taken stays taken; a limit below it refuses until it is enough.

        Raises BadInput (TL275, TL280), and keeps the old ones then.
        """
        keys, limits = Keys(settings.key), {each.name: Limits.of(each) for each in settings.key}
        self.flush()
        self._keys = keys
        old = self._clients
        self._clients = {name: _Client(each) for name, each in limits.items() if not each.are_none}
        for name, client in self._clients.items():
            if (before := old.get(name)) is not None:  # what a flush could not write
                client.requests, client.tokens, client.money, client.day = (
                    before.requests, before.tokens, before.money, before.day
                )  # fmt: skip
                client.is_touched = True
        if self._clients and self._ledger is None:
            self._ledger = Ledger(":memory:")

    def admit(self, authorization: str | None, asked: Asked, dearest: Price | None) -> Admission:
        """Reserve what it may use: tokens of prompt and longest answer, and the money of both at the `dearest` tokens
        of any backend (None: no price is known).

        Raises Refusal: 401 without a key that is known, 403 for a model that is not its own, 429 over a limit a
        minute, 402 over the money of a day, each with the seconds after which it may ask again, and 503 where what was
        taken cannot be written down.
        """
        if not len(self._keys):
            return Admission("")
        owner = self._keys.owner(authorization)
        refuse_model(owner, asked.model)
        client = self._clients.get(owner.name)
        answer = answer_tokens(asked)
        tokens = -(-asked.prompt_bytes // _BYTES_PER_TOKEN) + answer
        if client is None:
            return Admission(owner.name, tokens)
        if client.limits.money is not None and dearest is None:
            raise Refusal(402, "this key has a limit of money, and no price of a token is known here")
        now_s = self._now_s()
        money = answer * dearest.output + (tokens - answer) * dearest.input if dearest is not None else _NOTHING
        self._reserve(owner.name, client, client.limits.of_need(Amounts(1, tokens, money)), now_s)
        return Admission(owner.name, tokens, money, client.day)

    def settle(self, admission: Admission, tokens: int | None, money: Decimal | None) -> None:
        """What it used, in place of what was reserved; None: nobody counted, so the reservation stands."""
        client = self._clients.get(admission.key)
        if client is None:
            return
        client.is_touched = True
        if tokens is not None and client.limits.tokens is not None:
            client.tokens += admission.tokens - tokens
        if money is None or client.limits.money is None:
            return
        if admission.day == client.day:
            client.money += admission.money - money
        elif self._ledger is not None:  # of another day; rare, so at once
            back = Amounts(money=admission.money - money)
            self._ledger.give_back(admission.key, client.limits, back, admission.day, self._now_s())

    def flush(self) -> None:
        """Give back what this process holds and nobody asked for; each second, and at the end."""
        if self._ledger is None:
            return
        now_s = self._now_s()
        for name, client in self._clients.items():
            if client.is_touched:
                back = Amounts(client.requests, client.tokens, client.money)
                try:
                    self._ledger.give_back(name, client.limits, back, client.day or day_of(now_s), now_s)
                except sqlite3.Error:  # the disk is full, or somebody holds the file: again in a second
                    continue
                client.requests, client.tokens, client.money, client.is_touched = 0, 0, _NOTHING, False

    def taken(self) -> dict[str, tuple[Limits, float, float, Decimal]]:
        """For each key with limits: requests and tokens of this minute and money of this day, as in the ledger."""
        if self._ledger is None:
            return {}
        now_s = self._now_s()
        return {
            name: (each.limits, *self._ledger.taken(name, each.limits, now_s)) for name, each in self._clients.items()
        }

    def close(self) -> None:
        """Flush, and close the ledger."""
        self.flush()
        if self._ledger is not None:
            self._ledger.close()

    def _reserve(self, name: str, client: _Client, need: Amounts, now_s: float) -> None:
        day = day_of(now_s) if client.limits.money is not None else ""
        has = client.requests >= need.requests and client.tokens >= need.tokens and client.money >= need.money
        if not has or day != client.day:
            self._take(name, client, need, day, now_s)
        client.is_touched = True
        client.requests -= need.requests
        client.tokens -= need.tokens
        client.money -= need.money

    def _take(self, name: str, client: _Client, need: Amounts, day: str, now_s: float) -> None:
        """Take from the ledger, for this request and the next second of such. Raises Refusal."""
        assert self._ledger is not None
        money = client.money
        try:
            if client.day and day != client.day and money:  # what is left of another day's money stays that day's
                self._ledger.give_back(name, client.limits, Amounts(money=money), client.day, now_s)
                client.money = money = _NOTHING
            back = Amounts(client.requests, client.tokens, money)
            grant = self._ledger.take(name, client.limits, back, need, FLUSH_S, now_s)
        except sqlite3.Error as error:
            raise Refusal(503, f"what is used cannot be written down ({error}); ask again", retry_after_s=1) from None
        client.requests, client.tokens, client.money = grant.taken.requests, grant.taken.tokens, grant.taken.money
        client.day = day
        if grant.lacks:
            raise refusal_of(client.limits, need, grant)


def answer_tokens(asked: Asked) -> int:
    """The longest that its answers may become together."""
    return (UNSAID_TOKENS if asked.most_tokens is None else asked.most_tokens) * asked.choices


def refusal_of(limits: Limits, need: Amounts, grant: Grant) -> Refusal:
    """Why a request is over a limit, and when it is not."""
    if grant.lacks == "money":
        limit, asks = f"{limits.money} {limits.currency} a day (UTC)", f"this may cost {need.money:.6f}"
        status, code = 402, "insufficient_quota"
    else:
        limit = f"{getattr(limits, grant.lacks)} {grant.lacks} a minute"
        asks = f"this may use {need.tokens:.0f}" if grant.lacks == "tokens" else ""
        status, code = 429, "rate_limit_exceeded"
    over = f"this key has {limit}; {asks}{', and ' if asks else ''}"
    if grant.wait_s is None:
        return Refusal(status, f"{over}no wait makes room for that: ask for less", code=code)
    return Refusal(
        status, f"{over}it has room again in {max(1, round(grant.wait_s))} s", code=code, retry_after_s=grant.wait_s
    )
