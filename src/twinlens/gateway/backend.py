"""A backend: one server as the gateway knows it, and what was measured of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple

from twinlens.errors import BadInput
from twinlens.gateway.address import address_of
from twinlens.gateway.settings import CODE, BackendSettings, money_of
from twinlens.network.target import tls_context

if TYPE_CHECKING:
    from twinlens.gateway.routing.measured import Measured

_MILLION = Decimal(1_000_000)
_HOUR_S = 3600
Identity = Literal["same", "qualified", "not the one measured", "not measured"]


class Price(NamedTuple):
    """Money of one output token, and of one prompt token where these are charged beside it."""

    output: Decimal
    input: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Backend:
    """`url`: as far as /v1. `price`: amount and currency of an hour. `weights`: equal only where the weights are equal,
    "" where that is not known. `measured`: its operating points, None without a run. `identity`: how the live server
    stands to the one that was measured, `why` in words; without "same" or "qualified" nothing is predicted."""

    name: str
    url: str
    model: str = ""
    key: str = field(default="", repr=False)
    ca_file: str = ""
    price: tuple[Decimal, str] | None = None
    token_price: tuple[Decimal, str] | None = None
    """Amount and currency of a million output tokens, where these are what is paid."""
    input_price: tuple[Decimal, str] | None = None
    """The same of a million prompt tokens."""
    weights: str = ""
    quality: dict[str, float] = field(default_factory=dict)
    most_in_flight: int | None = None
    longest_tokens: int | None = None
    """The window of its model: prompt and answer; None where the server does not say."""
    endpoints: frozenset[str] = frozenset({"chat", "completions", "embeddings"})
    """Those that its server lists; all where it lists none: then it says itself what it does not have."""
    gives_token_ids: bool | None = None
    """It gives the numbers of tokens where it is asked (vLLM), from which a backend of the same weights goes on; None:
    nobody has asked it yet."""
    measured: Measured | None = None
    identity: Identity = "not measured"
    why: str = ""
    was_asked: bool = False
    """Its server has said who it is."""

    @property
    def predicts(self) -> bool:
        return self.measured is not None and self.identity in ("same", "qualified")


def backend_of(settings: BackendSettings, url: str = "") -> Backend:
    """As its settings say. `url`: of a launched server. Raises BadInput (TL275) for a wrong address, a missing key, a
    file of certificates that is none."""
    where = url or settings.url
    if not where:
        raise BadInput(f"backend {settings.name!r} has neither url nor launch; write one of them", code=CODE)
    try:
        address = address_of(where)
    except BadInput as wrong:
        raise BadInput(f"backend {settings.name!r}: {wrong}", code=CODE) from None
    if settings.ca_file:
        try:
            tls_context(settings.ca_file)
        except BadInput:
            sentence = f"backend {settings.name!r}: no certificates can be read from ca_file {settings.ca_file!r}"
            raise BadInput(sentence, code=CODE) from None
    key = ""
    if settings.key_env:
        key = os.environ.get(settings.key_env, "")
        if not key:
            raise BadInput(f"backend {settings.name!r}: the environment has no {settings.key_env}", code=CODE)
        if not (key.isascii() and key.isprintable()):
            raise BadInput(f"backend {settings.name!r}: {settings.key_env} holds no key but other letters", code=CODE)
    return Backend(
        settings.name, address, settings.model, key, settings.ca_file, money_of(settings.price_per_hour),
        money_of(settings.price_per_million), money_of(settings.price_per_million_input), settings.weights,
        dict(settings.quality), settings.most_in_flight,
    )  # fmt: skip


def price_of(backend: Backend) -> Price | None:
    """In the currency of its backend; None where nothing says it. An hour's price is divided by the output tokens that
    the backend was measured to make in an hour within its SLO: work on prompts is in it."""
    if backend.token_price is not None:
        prompt = backend.input_price[0] / _MILLION if backend.input_price is not None else Decimal(0)
        return Price(backend.token_price[0] / _MILLION, prompt)
    point = backend.measured.point if backend.measured is not None else None
    if backend.price is None or point is None or point.output_tokens_per_s <= 0:
        return None
    return Price(backend.price[0] / (Decimal(point.output_tokens_per_s) * _HOUR_S))


def dearest_of(backends: Iterable[Backend]) -> Price | None:
    """The dearest tokens that a request may come to use; None where a backend has no price."""
    prices = [price_of(each) for each in backends]
    known = [each for each in prices if each is not None]
    if not known or len(known) < len(prices):
        return None
    return Price(max(each.output for each in known), max(each.input for each in known))
