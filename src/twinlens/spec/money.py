"""Amounts of money as people write them, "3 USD/h" or "$2.50-5 per million output tokens", read as exact decimals.

What an amount is for (an hour, a month, a request) is a part of it, so that an hour is never taken for a month.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches

CURRENCIES = frozenset({
    "AED", "ARS", "AUD", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CZK", "DKK", "EGP", "EUR", "GBP",
    "HKD", "HUF", "IDR", "ILS", "INR", "JPY", "KRW", "MXN", "MYR", "NGN", "NOK", "NZD", "PEN", "PHP",
    "PLN", "RON", "RUB", "SAR", "SEK", "SGD", "THB", "TRY", "TWD", "UAH", "USD", "VND", "ZAR",
})  # fmt: skip
_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP"}
_CENTS = {"c", "¢", "cent", "cents"}
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000, "million": 1_000_000, "billion": 1_000_000_000}
_MOST = Decimal(10) ** 13
_DIGITS = r"\d[\d,]*(?:\.\d+)?|\.\d+"
_AMOUNT = re.compile(
    rf"(?P<sign>[$€£])?(?P<minus>[-−])?(?P<before>[A-Za-z]{{3}} )?(?P<low>{_DIGITS})"
    rf"(?:\s?(?:-|–|to)\s?[$€£]?(?P<high>{_DIGITS}))?"
    r"\s?(?P<scale>k|K|M|B|million|billion)?\s?(?P<after>[A-Za-z]{3}|¢|c|cents?)?(?P<rest>(?:\s?/|\s+(?:per|a|an)\s).*)?"
)
_PER = re.compile(r"(?:^|\s)*(?:/|per\s|an?\s)\s*")
_UNITS = {
    "h": r"(?:(?:device|gpu|card)[ -/]?)?(?:h|hr|hour)(?:[ /](?:device|gpu|card))?",
    "month": r"(?:mo|month)",
    "year": r"(?:y|yr|year)",
    "day": r"day",
    "kWh": r"kwh",
    "request": r"(?:request|req|use|inference|call|query)",
    "Mtoken": r"(?:1 ?)?m(?:illion|tok|token)?(?: ?(?:tok|token)s?)?",
    "input-Mtoken": r"(?:1 ?)?m(?:illion)? ?input(?: ?(?:tok|token)s?)?",
    "output-Mtoken": r"(?:1 ?)?m(?:illion)? ?output(?: ?(?:tok|token)s?)?",
    "user-month": r"(?:user[ /](?:per )?(?:mo|month)|(?:mo|month)[ /](?:per )?user)",
    "device": r"(?:device|gpu|card)",
}
_READ = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _UNITS.items()}


@dataclass(frozen=True, slots=True)
class Money:
    """From `low` to `high` of a currency (its three letters), `per`: "" (once), h, month, kWh, request …"""

    low: Decimal
    high: Decimal
    currency: str
    per: str = ""

    @property
    def middle(self) -> Decimal:
        return (self.low + self.high) / 2

    @property
    def unit(self) -> str:
        """ "USD/h"; "USD" for what is paid once."""
        return f"{self.currency}/{self.per}" if self.per else self.currency

    @property
    def is_range(self) -> bool:
        return self.low != self.high


def read_money(text: str) -> Money:
    """Raises ValueError with one clause for what is no amount, a currency that there is not, and a negative amount."""
    words = " ".join(str(text).split())
    found = _AMOUNT.fullmatch(words) if len(words) <= 80 else None
    if found is None or str(text).lower() in ("nan", "inf"):
        raise ValueError("it is no amount of money; write 3 USD/h, 37500 USD, 0.01 USD/request or 2.50-5 USD/h")
    if found["minus"]:
        raise ValueError("it is negative, and no price is")
    scale = _SCALE[(found["scale"] or "").lower()]
    ends = [Decimal(end.replace(",", "")) * scale for end in (found["low"], found["high"] or found["low"])]
    currency, cents = _currency(found)
    ends = [end / 100 for end in ends] if cents else ends
    if ends[0] > ends[1]:
        raise ValueError(f"it goes from {ends[0]:f} down to {ends[1]:f}; write the lower end first")
    if ends[1] > _MOST:
        raise ValueError("it is beyond any price")
    return Money(ends[0], ends[1], currency, _per(found["rest"] or ""))


def _currency(found: re.Match[str]) -> tuple[str, bool]:
    """The currency's letters, and whether the amount is in cents."""
    after = found["after"] or ""
    cents = after.lower() in _CENTS
    named = [_SIGNS[found["sign"]]] if found["sign"] else []
    named += [(found["before"] or "").strip().upper()] if found["before"] else []
    named += [after.upper()] if after and not cents else []
    if cents and not named:
        named = ["USD"]
    if not named:
        raise ValueError("it names no currency; write USD, EUR … behind the number: 3 USD/h")
    if len(set(named)) > 1:
        raise ValueError(f"it names two currencies, {' and '.join(named)}")
    if named[0] not in CURRENCIES:
        close = get_close_matches(named[0], CURRENCIES, 1)
        raise ValueError(f"{named[0]} is no currency known here{f'; did you mean {close[0]}?' if close else ''}")
    return named[0], cents


def _per(rest: str) -> str:
    unit = _PER.sub("", rest, count=1).strip()
    if not rest.strip():
        return ""
    plain = unit.rstrip("s") if unit.lower() not in ("h",) else unit
    for name, pattern in _READ.items():
        if pattern.fullmatch(unit) or pattern.fullmatch(plain):
            return name
    raise ValueError(f"nothing is priced per {unit[:20]!r}; write /h, /month, /year, /kWh, /request, /M tokens")
