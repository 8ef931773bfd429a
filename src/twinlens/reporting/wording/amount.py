"""Amounts in the unit of their kind: bytes as GB and GiB side by side, money, shares, rates."""

from __future__ import annotations

from twinlens.reporting.wording.money import counted, is_money, money_words
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
    return f"{counted(value)} {unit}" if abs(value) >= 1000 else f"{digits(value)} {unit}"


def factor(computed: float, low: float | None, high: float | None) -> str:
    """ ", 4.3 times the claim": how far a computed value is from the nearest end of a claim; "" within a tenth."""
    if not low or not high:
        return ""
    nearest = low if computed < low else high if computed > high else computed
    ratio = computed / nearest
    return "" if 0.91 < ratio < 1.1 else f", {digits(ratio, 2)} times the claim"


def span(low: float, high: float, unit: str) -> str:
    """ "42.1 to 50.7 tokens/s", "35.28 GB to 42.47 GB"."""
    ends = amount(low, unit, plain=unit != "1"), amount(high, unit, plain=unit != "1")
    units = [end.rpartition(" ")[2] for end in ends]
    first = ends[0].rpartition(" ")[0] if units[0] == units[1] and " " in ends[0] else ends[0]
    return f"{first} to {ends[1]}"
