"""A claim as values: numbers with their kind, names, topics, and words that were not understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlens.errors import BadInput

UNREADABLE = "TL230"
_FINEST, _COARSEST, _ABOUT = 0.01, 0.05, 0.1
_MOST = {
    "params": 1e15, "bandwidth": 1e16, "bytes": 1e18, "kv_token": 1e12, "bytes_per_param": 1e3, "rate": 1e12,
    "flop_rate": 1e22, "power": 1e10, "tokens": 1e18, "context": 1e9, "sequences": 1e9, "devices": 1e7,
    "token_time": 1e6, "time": 1e10, "bits": 64, "share": 100, "ratio": 1e9, "layers": 1e5, "kv_heads": 1e5,
    "head_dim": 1e5, "drafts": 1e3, "hours_day": 24, "price_kwh": 1e3,
}  # fmt: skip
"""Beyond these a number is a slip of the pen, in SI units."""


@dataclass(frozen=True, slots=True)
class Said:
    """A number of one kind in SI units, from `low` to `high`; both None where a letter stands for it ("X tokens/s").

    `off`: how far a computed value may be from it, as a share, for it to be the same number rounded.
    """

    kind: str
    low: float | None
    high: float | None
    text: str
    off: float = _FINEST

    @property
    def value(self) -> float:
        """One number: the middle of a range. Raises BadInput where a letter stands for it."""
        if self.low is None or self.high is None:
            raise BadInput(f"{self.text!r} needs a number in place of the letter", code=UNREADABLE)
        return (self.low + self.high) / 2

    @property
    def range(self) -> tuple[float, float]:
        """From low to high, widened by what rounding allows."""
        if self.low is None or self.high is None:
            raise BadInput(f"{self.text!r} needs a number in place of the letter", code=UNREADABLE)
        return self.low * (1 - self.off), self.high * (1 + self.off)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as it was read. `names`: of models, devices and formats. `unread`: words that mean nothing here."""

    text: str
    said: tuple[Said, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()

    def all(self, kind: str) -> tuple[Said, ...]:
        return tuple(each for each in self.said if each.kind == kind)

    def one(self, kind: str) -> Said | None:
        """The only number of a kind, None where there is none. Raises BadInput where there are several."""
        found = {(each.low, each.high): each for each in self.all(kind)}
        if len(found) > 1:
            texts = " and ".join(repr(each.text) for each in found.values())
            raise BadInput(
                f"{texts} are two values of one thing: the claim contradicts itself, or is two claims in one",
                code=UNREADABLE,
            )
        return next(iter(found.values()), None)

    def value(self, kind: str) -> float | None:
        """The only number of a kind; None where there is none."""
        found = self.one(kind)
        return None if found is None else found.value

    def name(self, kind: str) -> str | None:
        """The only name of a kind. Raises BadInput where there are several."""
        found = tuple(dict.fromkeys(self.names.get(kind, ())))
        if len(found) > 1:
            raise BadInput(f"the claim names {' and '.join(found)}; which one is meant?", code=UNREADABLE)
        return found[0] if found else None


def checked(said: Said) -> Said:
    """The same number. Raises BadInput for one that is zero, negative or absurd."""
    for value in (said.low, said.high):
        if value is not None and not value > 0:
            raise BadInput(f"{said.text!r} must be above 0", code=UNREADABLE)
        if value is not None and value > _MOST.get(said.kind, 1e30):
            raise BadInput(f"{said.text!r} is beyond anything that exists; is its unit right?", code=UNREADABLE)
    return said


def part_of_whole(said: Said | None) -> Said | None:
    """The same share. Raises BadInput for a part of a whole that is more than the whole."""
    if said is not None and said.low is not None and said.low > 1:
        raise BadInput(f"{said.text!r} is more than the whole: a share of it is at most 100 %", code=UNREADABLE)
    return said


def rounding(digits: str, is_about: bool) -> float:
    """How far a number may be off as it is written: half of its last digit that is not 0, within 1 % and 5 %."""
    plain = digits.replace(",", "").lower().partition("e")[0]
    significant = plain.replace(".", "").strip("0")
    half = 0.5 / float(significant) if significant else _FINEST
    off = min(_COARSEST, max(_FINEST, half))
    return max(off, _ABOUT) if is_about else off
