"""Failures that a simulated server injects: shares of requests, drawn from a seed by the number of the request."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal

from twinlens.errors import BadInput, nearest

FaultKind = Literal["429", "500", "503", "cut", "stall", "slow"]
_AMOUNTS: dict[str, float] = {"429": 1.0, "500": 0.0, "503": 0.0, "cut": 0.0, "stall": 2.0, "slow": 3.0}
"""Usual amounts: seconds of Retry-After, seconds that a stalled answer stands still, and how many times slower."""
_TAKES_AMOUNT = ("429", "stall", "slow")


@dataclass(frozen=True, slots=True)
class Share:
    """`share` of the requests fail so. `amount`: seconds of "429" and "stall", factor of "slow"."""

    kind: str
    share: float
    amount: float


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one request. `token`: the first that is late or never comes, of "cut" and "stall"."""

    kind: str
    amount: float
    token: int

    def due_s(self, due_s: float, token: int, arrival_s: float) -> float:
        """When a token is sent that is due at `due_s`, of a request that came at `arrival_s`."""
        if self.kind == "slow":
            return arrival_s + (due_s - arrival_s) * self.amount
        return due_s + self.amount if self.kind == "stall" and token >= self.token else due_s


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of requests that fail, at most all of them together, and the seed that says which."""

    shares: tuple[Share, ...] = ()
    seed: int = 0

    def of(self, number: int, output_tokens: int) -> Fault | None:
        """What happens to the request of this number; None: nothing."""
        if not self.shares:
            return None
        draw = random.Random(f"{self.seed}:{number}")
        at = draw.random()
        for each in self.shares:
            at -= each.share
            if at < 0:
                return Fault(each.kind, each.amount, draw.randrange(1, max(2, output_tokens)))
        return None


def faults_of(text: str, seed: int = 0) -> Faults:
    """Faults written as `KIND=SHARE[:AMOUNT],…`, such as `429=0.05:2,cut=0.01`. Raises BadInput (TL246)."""
    shares = tuple(_share(part.strip()) for part in text.split(",") if part.strip())
    if math.fsum(each.share for each in shares) > 1 + 1e-9:
        raise BadInput("--fail: the shares add up to more than 1; lower them", code="TL246")
    return Faults(shares, seed)


def _share(part: str) -> Share:
    kind, _, rest = part.partition("=")
    if kind not in _AMOUNTS:
        raise BadInput(f"--fail has no {kind[:20]!r}; {nearest(kind, _AMOUNTS)}", code="TL246")
    share_text, colon, amount_text = rest.partition(":")
    share, amount = _number(share_text), _number(amount_text) if colon else _AMOUNTS[kind]
    if share is None or not 0 <= share <= 1:
        raise BadInput(f"--fail {part[:40]!r}: the share is a number from 0 to 1, as in {kind}=0.05", code="TL246")
    if colon and kind not in _TAKES_AMOUNT:
        raise BadInput(f"--fail {part[:40]!r}: {kind} takes no amount; leave out what follows the colon", code="TL246")
    if amount is None or amount < (1 if kind == "slow" else 0):
        unit = "a factor of at least 1" if kind == "slow" else "seconds"
        raise BadInput(f"--fail {part[:40]!r}: after the colon stands {unit}, as in {kind}=0.05:2", code="TL246")
    return Share(kind, share, amount)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
