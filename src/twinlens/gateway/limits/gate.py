"""The gate: who may ask, how much, and what it may cost. Reserved before, settled from what was used."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from twinlens.gateway.asked import Asked
from twinlens.gateway.settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that was let in. `key`: the name of its client, "" where no keys are asked for."""

    key: str
    tokens: int = 0
    money: Decimal = Decimal(0)


class Gate:
    """Keys and their limits, of one gateway."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings

    def renew(self, settings: GatewaySettings) -> None:
        """Other keys or limits from now on; what was used today stays used."""
        self._settings = settings

    def admit(self, authorization: str | None, asked: Asked, dearest: Decimal | None) -> Admission:
        """Reserve what it may use: prompt and longest answer, at the dearest token of any backend.

        Raises Refusal: 401 without a key that is known, 403 for a model that is not its own, 429 over a limit a
        minute, 402 over the money of a day, each with the seconds after which it may ask again.
        """
        return Admission("")

    def settle(self, admission: Admission, tokens: int | None, money: Decimal | None) -> None:
        """What it used, in place of what was reserved; None: nobody counted, so the reservation stands."""
