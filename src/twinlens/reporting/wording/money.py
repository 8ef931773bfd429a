"""Money in words: amounts with their currency and what they are per, and what a plan of money took for granted."""

from __future__ import annotations

from decimal import Decimal

from twinlens.units import digits

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
    places = max(2, 2 - int(f"{size:.2e}".partition("e")[2]))
    shown = f"{size:.{places}f}"
    return shown.rstrip("0").ljust(4, "0")


def counted(value: float) -> str:
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
    "price-of-energy": "energy: nobody said what a kWh costs (--energy)",
    "an-api-does-not-say": "hardware and energy: the price of an API does not say",
    "tokens-of-a-request": "a million tokens: give --input-tokens and --output-tokens",
    "output-weight": "input and output tokens apart: give --output-weight, the cost of an output token in input tokens",
    "power": "carbon: the power of the machine is not known (--power with --energy)",
    "never": "never",
}
"""What is missing, by what it needs."""
