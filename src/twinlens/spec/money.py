"""Amounts of money as people write them, "3 USD/h" or "$2.50-5 per million output tokens", read as exact decimals.

What an amount is for (an hour, a month, a request) is a part of it, so that an hour is never taken for a month.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from twinlens.errors import BadInput
from twinlens.spec.frozen import Spec
from twinlens.system.document import read_text, toml_of

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


# Prices as somebody quoted them, with source and date. Money is a Decimal; nothing here is computed.

Priced = Annotated[Decimal, Field(ge=0, le=1_000_000_000, allow_inf_nan=False)]


class Price(Spec):
    """What one device was quoted at, from `low` to `high`. `date` None: the source gave none.

    `kind`: of one to buy, or of an hour of one in a cloud by its tier: `on-demand-hour`, `spot-hour`, `reserved-hour`
    (with a commitment), and `cloud-hour` where nobody said which. Each quote is an entry of its own.
    `uncertain`: recalled, typed, or without a source.
    """

    device: str
    kind: Literal["purchase", "on-demand-hour", "spot-hour", "reserved-hour", "cloud-hour"]
    low: Priced
    high: Priced
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    date: Annotated[str, Field(pattern=r"^20\d\d-\d\d(-\d\d)?$")] | None = None
    uncertain: bool = False
    source: str

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        if self.date is not None:
            datetime.date.fromisoformat(self.date if len(self.date) == 10 else f"{self.date}-01")
        return self


# A quote as somebody made it: a price an hour or a token, and what it is said to hold for.

_MOST_BYTES = 2**16
Word = Annotated[str, Field(min_length=1, max_length=80)]


class Quote(Spec):
    """Either `per_device_hour` with `devices` and `tokens_per_s`, or `per_million_output` (and `per_million_input`).

    `counts`: the tokens that `tokens_per_s` counts, at `input_tokens` and `output_tokens` a request. None: not said.
    """

    name: Word
    per_device_hour: Priced | None = None
    devices: PositiveInt = 1
    tokens_per_s: Annotated[PositiveFloat, Field(le=1e12)] | None = None
    counts: Literal["output", "total"] | None = None
    input_tokens: PositiveInt | None = None
    output_tokens: PositiveInt | None = None
    utilisation: Annotated[float, Field(gt=0, le=1)] | None = None
    per_million_output: Priced | None = None
    per_million_input: Priced | None = None
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    model: Word | None = None
    precision: Word | None = None
    context: PositiveInt | None = None
    slo: Word | None = None
    commitment_months: Annotated[int, Field(ge=0, le=1200)] | None = None
    date: Annotated[str, Field(pattern=r"^20\d\d-\d\d-\d\d$")] | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if (self.per_device_hour is None) == (self.per_million_output is None):
            raise ValueError("give per_device_hour or per_million_output, one of the two")
        return self


def read_quote(path: Path) -> Quote:
    """A quote from a TOML file, money exact. Raises BadInput (TL231) for one that is none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path.name} is too large for a quote; keep it below 64 kB", code="TL231")
        text = read_text(path)
    except (OSError, ValueError) as wrong:
        raise BadInput(f"{path.name!r} cannot be read as TOML ({wrong})", code="TL231") from None
    return quote_of(text, path.name)


def quote_of(text: str, name: str) -> Quote:
    """The same of a text; `name`: where it came from. Raises BadInput (TL231)."""
    if len(text) > _MOST_BYTES:
        raise BadInput(f"{name} is too large for a quote; keep it below 64 kB", code="TL231")
    try:
        data = toml_of(text, Decimal)
    except ValueError as wrong:
        raise BadInput(f"{name!r} cannot be read as TOML ({wrong})", code="TL231") from None
    kept = {key: _number(key, value) for key, value in data.items()}
    try:
        return Quote(**kept)
    except ValidationError as wrong:
        error = wrong.errors(include_url=False)[0]
        where = ".".join(map(str, error["loc"])) or "the quote"
        raise BadInput(f"{name}: {where}: {error['msg']}", code="TL231") from None


def _number(key: str, value: Any) -> Any:
    """Priced as Decimals, rates and shares as floats."""
    money = key.startswith("per_")
    if isinstance(value, Decimal):
        return value if money else float(value)
    if type(value) is int and (money or key in ("tokens_per_s", "utilisation")):
        return Decimal(value) if money else float(value)
    return value
