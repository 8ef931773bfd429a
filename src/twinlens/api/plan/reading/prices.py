"""Prices of a plan: typed, from a user's file, or from the catalogue; dated, and of one currency."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twinlens.api.question import Kind, Question
from twinlens.errors import BadInput, nearest
from twinlens.planning.cost.machine import Priced, joined
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.money import Money, read_money
from twinlens.system.document import read_toml
from twinlens.units import HOURS_A_MONTH

UNUSABLE = "TL234"
_MOST_BYTES = 2**20
_BOTH = "'3 USD/M input tokens + 15 USD/M output tokens'"
PER = {
    "buy": ("", "device"), "rent": ("h",), "reserved": ("h",), "energy": ("kWh",), "fixed": ("month",),
    "residual": ("",), "training": ("",), "revenue": ("user-month",), "warranty": ("year",), "deposit": ("",),
    "api": ("request", "Mtoken", "input-Mtoken", "output-Mtoken"),
}  # fmt: skip
"""What each price is per; "" is paid once."""
_WORDS = {"": "once", "h": "per hour", "kWh": "per kWh", "request": "per request", "Mtoken": "per million tokens",
          "user-month": "per user and month", "device": "per device"}  # fmt: skip
Typed = tuple[Priced, ...]
"""A price as it was typed; an API may have two, of input and of output."""
_HOURS = {"h": 1, "day": 24, "month": HOURS_A_MONTH, "year": 12 * HOURS_A_MONTH}


def prices_of(asked: Question, names: Iterable[str], file: Path | None) -> dict[str, Typed]:
    """Prices by name, typed ones in place of those of a file; an API may have two, of input and of output.

    Raises BadInput (TL234) for a price without a date in a file, one per something else, and for mixed currencies.
    """
    found = {} if file is None else _from_file(Path(file).expanduser())
    found |= {name: typed for name in names if (typed := getattr(asked, name)) is not None}
    one_currency(each for several in found.values() for each in several)
    return found


def one_currency(prices: Iterable[Priced]) -> None:
    """Raises BadInput (TL234) where prices are of several currencies: no exchange rate is known here."""
    by_currency: dict[str, str] = {}
    for each in prices:
        by_currency.setdefault(each.currency, each.name)
    if len(by_currency) > 1:
        said = " and ".join(f"{name} in {currency}" for currency, name in by_currency.items())
        raise BadInput(f"prices are mixed: {said}; give all of them in one currency", code=UNUSABLE)


def quoted(name: str, device: str, catalogue: Catalogue) -> Priced:
    """The price of one device by the catalogue's quotes. Raises BadInput (TL234) where it has none of the tier."""
    quotes = catalogue.prices_of(device)
    found = joined(name, quotes)
    if found is None:
        known = ", ".join(dict.fromkeys(each.kind for each in quotes))
        others = f" (it has {known})" if known else ""
        raise BadInput(
            f"the catalogue has no price to {_verb(name)} {device}{others}; give --{name}, or --prices FILE",
            code=UNUSABLE,
        )
    return found


def price_of(prices: Mapping[str, tuple[Priced, ...]], name: str) -> Priced | None:
    """The price of a name; None where nobody gave one."""
    several = prices.get(name, ())
    return several[0] if several else None


def _verb(name: str) -> str:
    return {"buy": "buy", "rent": "rent", "reserved": "reserve"}[name]


def _from_file(path: Path) -> dict[str, tuple[Priced, ...]]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path.name} is too large for prices; keep it below 1 MB", code=UNUSABLE)
        data = read_toml(path)
    except (OSError, ValueError) as wrong:
        raise BadInput(f"--prices {path.name!r} cannot be read ({wrong})", code=UNUSABLE) from None
    return {name: _entry(name, table, path.name) for name, table in data.items()}


def _entry(name: str, table: Any, file: str) -> tuple[Priced, ...]:
    """A table of a file: price, date, source."""
    if name not in PER:
        raise BadInput(f"[{name[:40]}] in {file} is no price; {nearest(name, tuple(PER))}", code=UNUSABLE)
    if not isinstance(table, dict):
        raise BadInput(f"{name} in {file} is a table: [{name}] with price, date and source", code=UNUSABLE)
    wrong = next((key for key in table if key not in ("price", "date", "source")), None)
    if wrong is not None:
        raise BadInput(
            f"[{name}] in {file}: unknown field {wrong[:40]!r}; it has price, date and source", code=UNUSABLE
        )
    for field in ("price", "date", "source"):
        if not table.get(field):
            raise BadInput(
                f"[{name}] in {file} has no {field}; a price is used with its date and source only", code=UNUSABLE
            )
    return _priced(
        name, str(table["price"]), f"[{name}] in {file}", f"{_date(name, table['date'], file)}: {table['source']}"
    )


MONEY = Kind("MONEY", lambda name, word: _priced(name, str(word), f"--{name}", "asked"))


def _date(name: str, date: object, file: str) -> str:
    text = str(date)
    try:
        return datetime.date.fromisoformat(text if len(text) != 7 else f"{text}-01").isoformat()[: len(text)]
    except ValueError:
        raise BadInput(
            f"[{name}] in {file}: {text[:20]!r} is no date; write 2026-11-22 or 2026-11", code=UNUSABLE
        ) from None


def _priced(name: str, text: str, where: str, source: str) -> tuple[Priced, ...]:
    several = text.split(" + ") if name == "api" else [text]
    found = tuple(Priced(name, _read(name, each, where), source) for each in several)
    kinds = [each.money.per for each in found]
    if name == "api" and len(found) > 1 and sorted(kinds) != ["input-Mtoken", "output-Mtoken"]:
        raise BadInput(f"{where}: give one of input and one of output tokens: {_BOTH}", code=UNUSABLE)
    if name == "api" and len(found) == 1 and kinds[0] in ("input-Mtoken", "output-Mtoken"):
        raise BadInput(f"{where} prices one kind of token; add the other: {_BOTH}", code=UNUSABLE)
    return found


def _read(name: str, words: str, where: str) -> Money:
    try:
        money = read_money(words)
    except ValueError as wrong:
        raise BadInput(f"{where} {words[:40]!r}: {wrong}", code=UNUSABLE) from None
    wanted = PER[name]
    if money.per in wanted:
        return Money(money.low, money.high, money.currency) if money.per == "device" else money
    said = _WORDS.get(money.per, f"per {money.per}")
    would = ""
    if money.per in _HOURS and wanted[0] in _HOURS:
        amount = money.middle * _HOURS[wanted[0]] / _HOURS[money.per]
        would = f"; {_short(money)} {said} is {amount:.4g} {money.currency} {_WORDS.get(wanted[0], f'per {wanted[0]}')}"
    need = " or ".join(_WORDS.get(each, f"per {each}") for each in wanted)
    raise BadInput(f"{where} {words[:40]!r} is {said}, and this price is {need}{would}", code=UNUSABLE)


def _short(money: Money) -> str:
    return f"{money.middle:f} {money.currency}"
