"""A backend: one server as the gateway knows it, and what was measured of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from twinlens.errors import BadInput
from twinlens.gateway.address import address_of
from twinlens.gateway.settings import CODE, BackendSettings, money_of

if TYPE_CHECKING:
    from twinlens.gateway.routing.measured import Measured

Identity = Literal["same", "qualified", "not the one measured", "not measured"]


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
    """Amount and currency of a million tokens, where these are what is paid."""
    weights: str = ""
    quality: dict[str, float] = field(default_factory=dict)
    most_in_flight: int | None = None
    longest_tokens: int | None = None
    """The window of its model: prompt and answer; None where the server does not say."""
    endpoints: frozenset[str] = frozenset({"chat", "completions"})
    gives_token_ids: bool = False
    """It gives the numbers of tokens where it is asked (vLLM), from which a backend of the same weights goes on."""
    measured: Measured | None = None
    identity: Identity = "not measured"
    why: str = ""
    was_asked: bool = False
    """Its server has said who it is."""

    @property
    def predicts(self) -> bool:
        return self.measured is not None and self.identity in ("same", "qualified")


def backend_of(settings: BackendSettings, url: str = "") -> Backend:
    """As its settings say. `url`: of a launched server. Raises BadInput (TL275) for a wrong address, a missing key."""
    where = url or settings.url
    if not where:
        raise BadInput(f"backend {settings.name!r} has neither url nor launch; write one of them", code=CODE)
    try:
        address = address_of(where)
    except BadInput as wrong:
        raise BadInput(f"backend {settings.name!r}: {wrong}", code=CODE) from None
    key = ""
    if settings.key_env:
        key = os.environ.get(settings.key_env, "")
        if not key:
            raise BadInput(f"backend {settings.name!r}: the environment has no {settings.key_env}", code=CODE)
    return Backend(
        settings.name, address, settings.model, key, settings.ca_file, money_of(settings.price_per_hour),
        money_of(settings.price_per_million), settings.weights, dict(settings.quality), settings.most_in_flight,
    )  # fmt: skip
