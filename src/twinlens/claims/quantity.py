"""The grammar of quantities: a number, its scale and its unit, as an ordered table of forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from twinlens.claims.said import UNREADABLE, Said, checked, rounding
from twinlens.errors import BadInput

_DIGITS = r"\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+"
NUMBER = re.compile(
    rf"(?P<about>(?:~|≈|about |around |roughly |approx\.? |nearly )\s*)?(?P<money>\$|€)?(?P<sign>[-−])?(?P<n>{_DIGITS})"
    rf"(?:\s?(?:-|–|to)\s?\$?(?P<m>{_DIGITS}))?(?P<plus>\+)?"
)
LETTER = re.compile(r"(?P<n>[XYN])(?= ?(?:tok|tokens|t/s|GB|ms|users|%))")
_DECIMAL = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_WORDS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_SECONDS = {
    "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0,
    "hour": 3600.0, "hr": 3600.0, "day": 86400.0, "week": 604800.0, "month": 365 * 86400 / 12, "year": 365 * 86400.0,
}  # fmt: skip
_NEXT = r"(?=(?:[ABHLVTabhlvt]\d{1,3}|[Gg][BHbh]\d{2,3}|MI\d{3}|mi\d{3}|RTX|rtx|\d+ ?GB)(?:s?(?![\w/])|x))"
"""A device, or its memory, follows: "8x H100", "4×80 GB"."""
_POWERS_OF_TWO = {2.0**power for power in range(12)}


@dataclass(frozen=True, slots=True)
class Form:
    """What may follow a number, the kind that it makes of it, and the factor to SI units."""

    kind: str
    pattern: re.Pattern[str]
    factor: Callable[[re.Match[str], float], float]
    money: bool = False


def _form(kind: str, pattern: str, factor: Callable[[re.Match[str], float], float], money: bool = False) -> Form:
    ends = "" if pattern.endswith(_NEXT) else "(?![A-Za-z0-9])"
    return Form(kind, re.compile(rf"[ -]?(?:{pattern}){ends}"), factor, money)


def _bytes(match: re.Match[str], number: float) -> float:
    size = match["x"].lower()
    if match["i"]:
        return 1024.0 ** ("kmgtp".index(size) + 1)
    return _DECIMAL[size]


def _scale(match: re.Match[str], number: float) -> float:
    word = (match["x"] or "").lower()
    return _WORDS[word] if word in _WORDS else _DECIMAL[word]


def _context(match: re.Match[str], number: float) -> float:
    """8K, 32K and 128K are powers of two, as the limits of models are; other K are thousands."""
    size = {"": 0, "k": 1, "m": 2}[(match["x"] or "").lower()]
    return (1024.0 if number in _POWERS_OF_TWO else 1000.0) ** size


def _seconds(match: re.Match[str], number: float) -> float:
    word = match["t"] if match["t"] in _SECONDS else match["t"].lower()
    return _SECONDS[word if word in _SECONDS else word.rstrip("s")]


def _one(match: re.Match[str], number: float) -> float:
    return 1.0


_X = r"(?P<x>[kKmMbBT]|[Tt]housand|[Mm]illion|[Bb]illion|[Tt]rillion)?"
_B = r"(?P<x>[KMGTPk])(?P<i>i?)B(?:ytes?)?"
_TOKENS = r"(?:tok(?:en)?s?|t)"
_PER_S = r"(?:/ ?s(?:ec(?:ond)?)?|ps|/ ?sec| per sec(?:ond)?| a second)"
_PER = r"(?: ?/ ?| per | a | an )"
_PER_TOKEN = rf"{_PER}(?:output )?tok(?:en)?"
_TIME = r"(?P<t>µs|us|ms|s|secs?|seconds?|min|minutes?|h|hrs?|hours?|days?|weeks?|months?|years?)"

FORMS: tuple[Form, ...] = (
    _form("price_token", rf"{_X}{_PER}(?P<y>[MmBk]|million |billion |1M |thousand |1k )?(?: ?output)? ?tok(?:en)?s?",
          lambda match, n: _scale(match, n) / _each(match["y"]), money=True),
    _form("price_useful", rf"{_X}{_PER}useful[ -](?:GPU[- ])?h(?:ou)?r?", _scale, money=True),
    _form("price_kwh", rf"{_PER}kWh", _one, money=True),
    _form("price_hour", rf"{_X}{_PER}(?:GPU[- ])?h(?:ou)?r?", _scale, money=True),
    _form("cost_month", rf"{_X}{_PER}month", _scale, money=True),
    _form("cost_each", rf"{_X}{_PER}(?:use|request|inference|query|call)", _scale, money=True),
    _form("money", _X, _scale, money=True),
    _form("cost_each", rf"(?:c|¢|cents?){_PER}(?:use|request|inference|query|call)", lambda match, n: 0.01),
    _form("bandwidth", rf"{_B}{_PER_S}", _bytes),
    _form("bandwidth", rf"(?P<x>[MGT])(?P<i>)b(?:it)?{_PER_S}", lambda match, n: _bytes(match, n) / 8),
    _form("kv_token", rf"{_B}{_PER_TOKEN}", _bytes),
    _form("bytes_per_param", rf"(?:B|bytes?){_PER}(?:param(?:eter)?|weight)s?", _one),
    _form("kv_token", rf"(?:B|bytes?){_PER_TOKEN}", _one),
    _form("bytes", _B, _bytes),
    _form("tokens_per_j", rf"{_TOKENS}{_PER}(?:J|[Jj]oule)", _one),
    _form("tokens_per_j", rf"{_TOKENS}/s(?:/| per )(?:W|[Ww]att)", _one),
    _form("j_per_token", rf"(?P<x>[mk]?)(?:J|[Jj]oules?){_PER_TOKEN}",
          lambda match, n: 1e-3 if match["x"] == "m" else _scale(match, n)),
    _form("rate", rf"{_X} ?{_TOKENS}{_PER_S}", _scale),
    _form("uses", rf"{_X} ?(?:requests?|uses?|queries|calls){_PER}day", _scale),
    _form("requests", rf"{_X} ?(?:requests|queries|calls|uses)", _scale),
    _form("people", rf"{_X} ?(?:daily|active)(?: active)? users", _scale),
    _form("token_time", rf"(?P<t>µs|us|ms|s|seconds?)(?:{_PER_TOKEN}|{_PER}(?:decode )?step| TPOT| ITL)",
          _seconds),
    _form("hours_day", rf"(?:h|hours?){_PER}day", _one),
    _form("flop_rate", r"(?P<x>[MGTPE])(?:FLOPS|FLOP/s|FLOPs/s|flops|OPS|OP/s|FLOPs|flop/s)", _scale),
    _form("flop", r"(?P<x>[MGTPE]?)FLOPs?", _scale),
    _form("tokens", r"(?P<x>[MmBT]|[Mm]illion|[Bb]illion|[Tt]rillion) ?tok(?:en)?s?", _scale),
    _form("context", r"(?P<x>[kKM])?[ -]?(?:tokens?|tok)?[ -]?(?:of )?(?:context|ctx)", _context),
    _form("context", r"(?P<x>[kK])?[ -]?tok(?:en)?s?(?: each)?", _context),
    _form("sequences", r"(?:concurrent |parallel )?(?:users?|sequences?|streams?|chats?|sessions?)", _one),
    _form("sequences", r"concurrent requests", _one),
    _form("drafts", r"(?:draft(?:ed)?|speculative|speculated)(?: tokens?)?", _one),
    _form("devices", r"(?:x|×)?[ -]?(?:GPUs?|cards?|accelerators?|devices?)", _one),
    _form("devices", rf"(?:x|×)? ?{_NEXT}", _one),
    _form("ratio", r"(?:x|×|times)", _one),
    _form("power", r"(?P<x>[kM]?)(?:W|[Ww]atts?)", _scale),
    _form("share", r"(?:%|percent)(?: ?(?:of|MFU|MBU))?", lambda match, n: 0.01),
    _form("bits", r"(?:bits? per (?:weight|param(?:eter)?)|bpw)", _one),
    _form("layers", r"layers?", _one),
    _form("kv_heads", r"(?:KV|kv)[ -]heads?", _one),
    _form("context", r"(?P<x>[kK])", _context),
    _form("time", _TIME, _seconds),
    _form("params", r"(?P<x>[MBTmbt]|[Mm]illion|[Bb]illion|[Tt]rillion)(?:[ -](?:param(?:eter)?s?|weights))?", _scale),
)  # fmt: skip
"""What may follow a number, the longest first: "45 tok/s" is a rate before "45 t" could be anything else."""


def _each(word: str | None) -> float:
    size = (word or "").strip().lower().removeprefix("1")
    return _WORDS[size] if size in _WORDS else _DECIMAL[size]


def read_quantity(text: str, at: int) -> tuple[Said, int] | None:
    """The quantity at a place of a text, and where it ends; None where no number stands there.

    Raises BadInput for a number without a unit, and for one that is zero, negative or absurd.
    """
    number = NUMBER.match(text, at)
    if number is None:
        return _letter(text, at)
    digits = number["n"]
    low = float(digits.replace(",", "")) * (-1 if number["sign"] else 1)
    for form in FORMS:
        unit = form.pattern.match(text, number.end())
        if unit is None or form.money != bool(number["money"]):
            continue
        factor = form.factor(unit, abs(low))
        ends = [low * factor, *([float(number["m"].replace(",", "")) * factor] if number["m"] else [])]
        said = text[at : unit.end()].strip()
        off = rounding(digits, bool(number["about"]))
        return checked(Said(form.kind, min(ends), max(ends), said, off)), unit.end()
    raise BadInput(
        f"{text[at : number.end()].strip()!r} has no unit: say what it is, as in 40 GB, 45 tok/s, 1.79 TB/s, 16 users, "
        f"32K context, 70B",
        code=UNREADABLE,
    )


def _letter(text: str, at: int) -> tuple[Said, int] | None:
    letter = LETTER.match(text, at)
    if letter is None:
        return None
    for form in FORMS:
        unit = form.pattern.match(text, letter.end())
        if unit is not None and not form.money:
            return Said(form.kind, None, None, text[at : unit.end()].strip()), unit.end()
    return None
