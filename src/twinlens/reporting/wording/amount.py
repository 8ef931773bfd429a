"""Amounts in the unit of their kind: bytes as GB and GiB side by side, money, shares, rates."""

from __future__ import annotations

import math
from decimal import Decimal

from twinlens.units import BYTES_PER_S, DAY_S, FLOP, FLOP_PER_S, MONTH_S, SECONDS, WATTS, digits, show


def amount(value: float, unit: str, *, plain: bool = False) -> str:
    """A value with its unit. `plain`: bytes in GB and long times in days alone, to stand in an arithmetic."""
    if unit == "bytes":
        return _bytes(value, plain)
    if unit == "bytes/token":
        return f"{value:,.12g} B/token" if plain else f"{value:,.12g} B/token ({digits(value / 1024)} KiB)"
    if unit == "bytes/s":
        return show(value, BYTES_PER_S)
    if unit == "flop/s":
        return show(value, FLOP_PER_S, 4)
    if unit == "FLOP":
        return show(value, FLOP, 4) if value < 1e18 else f"{value:.3e} FLOP"
    if unit == "device-s":
        return f"{value / 3600:,.0f} device hours"
    if unit == "s":
        return _time(value, plain)
    if unit == "share":
        return f"{digits(100 * value)} %"
    if unit == "1":
        return f"{value:.12g}" if plain else f"{digits(value)}×"
    if unit == "parameters":
        return f"{digits(value / 1e9, 4)} B parameters"
    if unit == "tokens":
        return f"{digits(value / 1e12)} T tokens" if value >= 1e12 else f"{value:,.0f} tokens"
    if is_money(unit):
        return money_words(value, unit)
    return _money(value, unit) if unit.startswith("$") else _other(value, unit)


def _bytes(value: float, plain: bool) -> str:
    if value < 1e6:
        return f"{value:,.12g} B"
    divisor, binary, name = (1e9, 2.0**30, "G") if value >= 1e8 else (1e6, 2.0**20, "M")
    decimal = f"{digits(value / divisor, 4)} {name}B"
    return decimal if plain else f"{decimal} ({digits(value / binary, 4)} {name}iB)"


def _time(value: float, plain: bool) -> str:
    if value >= 60 * DAY_S and not plain:
        return f"{digits(value / DAY_S)} days ({digits(value / MONTH_S)} months)"
    return f"{digits(value / DAY_S)} days" if value >= 2 * DAY_S else show(value, SECONDS)


def _money(value: float, unit: str) -> str:
    if unit == "$/token":
        return f"${digits(value * 1e6)} per million tokens"
    shown = f"${value:,.0f}" if value >= 1000 else f"${digits(value)}"
    return shown + unit.removeprefix("$")


def _other(value: float, unit: str) -> str:
    if unit == "w":
        return show(value, WATTS)
    if unit == "j/token":
        return f"{digits(value)} J/token"
    return f"{_count(value)} {unit}" if abs(value) >= 1000 else f"{digits(value)} {unit}"


def span(low: float, high: float, unit: str) -> str:
    """ "42.1 to 50.7 tokens/s", "35.28 GB to 42.47 GB"."""
    ends = amount(low, unit, plain=unit != "1"), amount(high, unit, plain=unit != "1")
    units = [end.rpartition(" ")[2] for end in ends]
    first = ends[0].rpartition(" ")[0] if units[0] == units[1] and " " in ends[0] else ends[0]
    return f"{first} to {ends[1]}"


# Money: amounts with their currency and what they are per.

_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}
_PER = {
    "": "", "h": "/h", "request": "/request", "month": "/month", "year": "/year", "kWh": "/kWh",
    "Mtoken": " per million tokens", "input-Mtoken": " per million input tokens",
    "output-Mtoken": " per million output tokens", "user-month": " per user and month",
}  # fmt: skip


def is_money(unit: str) -> bool:
    """Whether a unit begins with a currency: "USD/h"."""
    currency = unit.partition("/")[0]
    return len(currency) == 3 and currency.isascii() and currency.isupper()


def money_words(value: Decimal | float, unit: str) -> str:
    """ "$0.000208/request", "$304,167/month", "CHF 3.00/h"."""
    currency, _, per = unit.partition("/")
    size = abs(float(value))
    if size >= 1000 or (value == int(value) and size >= 100):
        shown = f"{abs(value):,.0f}"
    else:
        shown = f"{abs(value):.2f}" if size >= 1 or size == 0 else _small(size)
    sign = _SIGNS.get(currency, f"{currency} ")
    return f"{'−' if value < 0 else ''}{sign}{shown}{_PER.get(per, f'/{per}')}"


def _small(size: float) -> str:
    """Three digits, at least two decimals, and never an exponent: 0.10, 0.137, 0.00000213."""
    places = max(2, 2 - math.floor(math.log10(float(f"{size:.2e}"))))
    shown = f"{size:.{places}f}"
    return shown.rstrip("0").ljust(4, "0")


def _count(value: float) -> str:
    """A count of many: "304,167"; "1.45e+12" from ten thousand million on."""
    if abs(value) >= 1e10:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else digits(value, 4)


NAMES = {
    "hardware": "hardware", "energy": "energy", "request": "a request, at full load", "energy-share": "energy, of both",
    "listed": "a request, before retries and cache hits", "million": "a million tokens, at full load",
    "million-input": "a million input tokens", "million-output": "a million output tokens",
    "monthly": "requests a month", "hardware-month": "hardware of a month", "energy-month": "energy of a month",
    "bill": "bill of a month", "thousand-users": "a thousand users, a month", "doubled": "twice the users",
    "half-cent": "half a cent a request", "machines": "machines", "duty": "busy, of the hours that are paid",
    "request-at-load": "a request, at that load", "million-at-load": "a million tokens, at that load",
    "full-load": "the requests, at full load", "training": "training run",
    "training-request": "training, of a request", "training-share": "training, of both",
    "training-equal": "training equals serving at", "training-small": "training is 5 % of both at",
    "carbon": "carbon of a request", "carbon-month": "carbon of a month", "margin-1": "margin of a thousand users",
    "margin-2": "margin at twice the use", "margin-5": "margin at 5 times the use",
    "margin-10": "margin at 10 times the use", "margin-gone": "no margin from",
}  # fmt: skip

WAYS = {"buy": "buying", "rent": "renting", "reserved": "reserving", "api": "an API"}
"""Ways to pay, as sentences call them."""


def compared_name(name: str) -> str | None:
    """The name of a figure of buying against other ways: "buy-12" is "cost of buying over 12 months"."""
    match name.split("-"):
        case [way, months] if way in WAYS and months.isdecimal():
            return f"cost of {WAYS[way]} over {months} months"
        case ["months", way] if way in WAYS:
            return f"month from which buying beats {WAYS[way]}"
        case ["share", way, months] if way in WAYS:
            side = "up to" if way == "reserved" else "from"
            return f"share of hours {side} which buying beats {WAYS[way]} over {months} months"
        case ["rent", "needed", months]:
            return f"rent at which buying pays in {months} months"
    return None


LACKS = {
    "in-the-rent": "energy: in the rent",
    "price-of-energy": "energy: the price of a kWh was not given (--energy)",
    "an-api-does-not-say": "hardware and energy: the price of an API does not say",
    "tokens-of-a-request": "a million tokens: give --input-tokens and --output-tokens",
    "output-weight": "input and output tokens apart: give --output-weight, the cost of an output token in input tokens",
    "power": "carbon: the power of the machine is not known (--power with --energy)",
    "never": "never",
}
"""What is missing, by what it needs."""
