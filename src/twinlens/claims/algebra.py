"""Claims that units alone decide: every number of the sentence, multiplied or divided once, in the one way that fits.

"700 W at 3,500 tok/s is 0.2 J per token" needs no law: W / (tokens/s) is the only product of the three that has no unit
left. Where two ways fit, or a number is left, nothing is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from twinlens.claims.said import Answer, Said, View
from twinlens.theory.figure import Figure, Input
from twinlens.units import DAY_S, HOUR_S, JOULES_PER_KWH, YEAR_S

UNITS: Mapping[str, tuple[str, str, float]] = {
    "bytes": ("B", "bytes", 1.0), "bandwidth": ("B/s", "bytes/s", 1.0), "kv_token": ("B/token", "bytes/token", 1.0),
    "bytes_per_param": ("B/param", "bytes", 1.0), "params": ("param", "parameters", 1.0), "time": ("s", "s", 1.0),
    "token_time": ("s/token", "s", 1.0), "rate": ("token/s", "tokens/s", 1.0), "context": ("token", "tokens", 1.0),
    "tokens": ("token", "tokens", 1.0), "tokens_out": ("token", "tokens", 1.0),
    "tokens_day": ("token/s", "tokens", 1 / DAY_S), "tokens_param": ("token/param", "tokens/parameter", 1.0),
    "tokens_step": ("token/step", "tokens", 1.0), "steps": ("step", "steps", 1.0),
    "devices": ("device", "devices", 1.0),
    "requests": ("request", "requests", 1.0), "rps": ("request/s", "1/s", 1.0),
    "in_flight": ("request", "requests", 1.0),
    "uses": ("request/s", "requests", 1 / DAY_S), "power": ("J/s", "w", 1.0), "energy": ("J", "j", 1.0),
    "j_token": ("J/token", "j/token", 1.0), "tokens_per_j": ("token/J", "tokens/J", 1.0), "money": ("$", "$", 1.0),
    "price_hour": ("$/s", "$/h", 1 / HOUR_S), "price_token": ("$/token", "$/token", 1.0), "flop": ("flop", "FLOP", 1.0),
    "price_kwh": ("$/J", "$", 1 / JOULES_PER_KWH), "price_device": ("$/device", "$", 1.0),
    "cost_each": ("$/request", "$", 1.0),
    "cost_day": ("$/s", "$", 1 / DAY_S), "cost_year": ("$/s", "$", 1 / YEAR_S),
    "flop_rate": ("flop/s", "flop/s", 1.0),
    "flop_token": ("flop/token", "FLOP", 1.0), "device_time": ("device s", "device-s", 1.0),
    "intensity": ("flop/B", "FLOP/byte", 1.0), "tokens_dollar": ("token/$", "tokens/$", 1.0),
    "card_bytes": ("B/device", "bytes", 1.0), "sequences": ("user", "users", 1.0), "groups": ("group", "1", 1.0),
    "hours_day": ("", "h a day", 1 / 24), "cost_month": ("$/s", "$", 12 / YEAR_S),
}  # fmt: skip
"""Of each kind its unit, the one in which it is shown, and the factor from that to the first."""
_PER_DEVICE = ("bandwidth", "power", "price_hour", "flop_rate")
_PER_USER = ("context", "tokens_out", "token_time")
FIGURES = {
    "price_token": "price-per-token", "j_token": "energy-per-token", "tokens_per_j": "tokens-per-joule",
    "cost_each": "cost-per-request", "steps": "steps", "tokens_dollar": "tokens-per-dollar", "money": "bill",
    "device_time": "device-time", "cost_day": "bill", "cost_year": "bill", "energy": "energy",
    "price_hour": "cost-per-hour",
    "rate": "total-rate", "time": "tokens-time", "tokens": "tokens", "bytes": "total",
}  # fmt: skip
"""Kinds of number that are the figure of a claim, the likeliest first, and its name."""
_COUNTED = {"steps": "step", "requests": "request", "sequences": "user", "devices": "device"}
Exponents = Counter[str]


def arithmetic(view: View) -> Answer | None:
    """The figure of a sentence, else its last number, from all others, where their units fit in exactly one way."""
    said = [each for each in view.claim.said if each.kind != "factor"]
    distinct = list({(each.kind, each.low, each.high, each.per): each for each in reversed(said)}.values())[::-1]
    kinds = {each.kind for each in distinct}
    if len(said) != len(view.claim.said) or not 2 <= len(distinct) <= 6 or len(distinct) > len(kinds) + 1:
        return None
    if any(each.kind not in UNITS or each.low is None for each in distinct) or view.claim.names("model"):
        return None
    options = (tuple(_units_of(each, kinds, view.claim.text)) for each in distinct)
    ways = {
        signs
        for units in product(*options)
        for signs in _fits(units)
        if not _cancel(distinct, units) and _is_share(distinct, signs)
    }
    if len(ways) != 1:
        return None
    (signs,) = ways
    return _solved(view, distinct, signs)


def _cancel(distinct: list[Said], units: tuple[Exponents, ...]) -> bool:
    """Whether two numbers of one kind cancel each other, so that nothing relates them to the rest."""
    found = [(each.kind, tuple(sorted(unit.items()))) for each, unit in zip(distinct, units, strict=True)]
    return len(set(found)) < len(found)


def _is_share(distinct: list[Said], signs: tuple[int, ...]) -> bool:
    """Whether hours a day stand on the side of what they are a share of."""
    sides = {each.kind: sign for each, sign in zip(distinct, signs, strict=True)}
    own = next((sides[kind] for kind in ("power", "price_hour", "rate") if kind in sides), None)
    return "hours_day" not in sides or own == sides["hours_day"]


def base(said: Said) -> float:
    """The number in the unit that its kind is multiplied in."""
    return said.value * (UNITS[said.kind][2] if said.kind in UNITS else 1.0)


def _solved(view: View, distinct: list[Said], signs: tuple[int, ...]) -> Answer:
    """The figure from all other numbers, each above or below the line."""
    figures = [at for kind in FIGURES for at, each in reversed([*enumerate(distinct)]) if each.kind == kind]
    at = figures[0] if figures else len(distinct) - 1
    claimed, own = distinct[at], signs[at]
    value, terms = 1 / UNITS[claimed.kind][2], []
    for each, sign in zip(distinct, signs, strict=True):
        if each is not claimed:
            value *= base(each) ** (-own * sign)
            terms.append((-own * sign, Input(each.kind, each.value, UNITS[each.kind][1])))
    view.used.update(view.claim.said)
    view.says("training", "decode", "energy", "tpot", "each", "per-token", "hour", "kv", "amortised", "prefill")
    terms.sort(key=lambda term: -term[0])
    above = [f"{{{place}}}" for place, (sign, _) in enumerate(terms) if sign > 0]
    below = [f"{{{place}}}" for place, (sign, _) in enumerate(terms) if sign < 0]
    formula = " / ".join([" × ".join(above) or "1", *below])
    kinds = {each.kind for each in distinct}
    is_stream = claimed.kind == "rate" and "token_time" in kinds
    quantity = "stream-rate" if is_stream else FIGURES.get(claimed.kind, "arithmetic")
    unit, law = UNITS[claimed.kind][1], "stream-rate" if is_stream else None
    cases = [Figure(quantity, value, unit, formula, tuple(term for _, term in terms), law=law)]
    counted = (
        (each.value, -own * sign)
        for each, sign in zip(distinct, signs, strict=True) if each.kind == "devices" and each is not claimed
    )  # fmt: skip
    many = next(counted, None)
    if many and any(each.kind in _PER_DEVICE and not each.per for each in distinct):
        whole = value / many[0] ** many[1]
        cases.append(Figure(quantity, whole, unit, "{0}", (Input(claimed.kind, whole, unit),), reading="of-all"))
    return Answer(claimed, tuple(cases), is_arithmetic=True)


def _units_of(said: Said, kinds: set[str], text: str) -> Iterator[Exponents]:
    """The units that a number may have: makers say of each device what they say of one."""
    unit = exponents(UNITS[said.kind][0])
    if said.per == "user" and "sequences" in kinds:
        unit["user"] -= 1
    is_of_devices = bool(kinds & {"devices", "device_time"})
    if said.per == "device" and is_of_devices:
        unit["device"] -= 1
    if said.per == "group":
        unit["group"] -= 1
    yield unit
    if said.kind == "time" and text[said.at + len(said.text) :].startswith(" each"):
        yield from (_less(unit, counted) for kind, counted in _COUNTED.items() if kind in kinds)
    if not said.per and said.kind in _PER_DEVICE and is_of_devices:
        yield _less(unit, "device")
    if said.kind in _PER_USER[:2] and kinds & {"requests", "uses", "rps"}:
        yield _less(unit, "request")
    if not said.per and said.kind in _PER_USER and "sequences" in kinds:
        yield _less(unit, "user", -1 if said.kind == "token_time" else 1)


def exponents(unit: str) -> Exponents:
    above, _, below = unit.partition("/")
    return Counter(above.split()) if not below else _less(Counter(above.split()), below)


def _less(unit: Exponents, name: str, times: int = 1) -> Exponents:
    found = Counter(unit)
    found[name] -= times
    return found


def _fits(units: tuple[Exponents, ...]) -> Iterator[tuple[int, ...]]:
    """The signs with which all units cancel; the first is above."""
    names = set().union(*units)
    for signs in product((1, -1), repeat=len(units) - 1):
        all_signs = (1, *signs)
        if all(sum(sign * unit[name] for sign, unit in zip(all_signs, units, strict=True)) == 0 for name in names):
            yield all_signs


# Claims that write their own arithmetic: "1,024 sequences × 4,096 tokens = 4.2M", "300 ms + 200 × 20 ms = 4.3 s".
#
# It is worked out as it is written. Where the units agree, the result decides; where they do not (a number without a
# unit, a price "per kWh" left out), only a result that comes out right does.

_TOKENS = (
    ("=", r"=|→|≈|->|\b(?:is|are|makes?|gives?|equals?|(?:comes?|works?|adds?)(?: out| up)? (?:to|at)|means?|totals?|"
     r"yields?)\b"),
    ("*", r"[×*·]|(?<![^\s)\d])x(?=[\s(\d])|\btimes\b|multiplied by"), ("/", r"[/÷]|\bdivided by\b"),
    ("+", r"\+|\bplus\b"), ("-", r"(?<=\s)[-−–](?=\s)|\bminus\b"), ("(", r"\((?=[^)]*[\d#])"), (")", r"(?<=#)\)"),
)  # fmt: skip
_PATTERN = re.compile("|".join(f"({pattern})" for _, pattern in _TOKENS) + r"|(#\d+#)")
_COUNTS = ("user", "device", "request", "step", "group", "param")
_BARE = ("layers", "heads", "kv_heads", "head_dim", "epochs", "bare")
_OF_TOKENS = ("tokens", "tokens_step", "context")
_SAME = 0.02
_SHOWN = {"*": " × ", "/": " / ", "+": " + ", "-": " − ", "(": "(", ")": ")"}


@dataclass(frozen=True, slots=True)
class Worked:
    """A value in base units and as the written digits give it, and its unit: None where units do not agree."""

    value: float
    written: float
    unit: Exponents | None


def equation(view: View) -> Answer | None:
    """The value that the arithmetic of a sentence comes to, beside the one that follows "="; None where it has none."""
    numbers = sorted((each for each in view.claim.said if each.low is not None), key=lambda each: each.at)
    sides = _sides(_written(view.claim.text, numbers))
    if sides is None:
        return None
    left, right = sides
    terms, claimed = [numbers[int(each)] for each in left if each.isdigit()], numbers[int(right)]
    if all(each.kind == "bare" for each in (*terms, claimed)):
        return None
    worked = _sum([*left], numbers)
    if worked is None or not worked.value:
        return None
    own = _of(claimed)
    value = worked.value / (base(claimed) / claimed.value)
    as_written = worked.written * claimed.value / own.written
    fits = worked.unit is not None and own.unit is not None and claimed.kind != "bare" and _same(worked.unit, own.unit)
    is_plain = claimed.kind in ("time", "flop") and own.written == own.value
    fits |= is_plain and all(each.kind == "bare" for each in terms)
    fits |= claimed.kind in _OF_TOKENS and all(
        each.kind in ("bare", "sequences", "devices", "context") for each in terms
    )
    found = next((each for each in (value, as_written) if abs(each / claimed.value - 1) <= _SAME), None)
    if not fits and found is None:
        return None
    view.used.update((*terms, claimed))
    view.says("each", "decode", "prefill", "tpot", "end-to-end", "training", "kv", "of-all", "per-token", "hour")
    places = iter(range(len(terms)))
    formula = "".join(f"{{{next(places)}}}" if each.isdigit() else _SHOWN[each] for each in left)
    shown = value if fits or found is None else found
    name, inputs = FIGURES.get(claimed.kind, "arithmetic"), tuple(Input(*_named(each)) for each in terms)
    return Answer(claimed, (Figure(name, shown, _named(claimed)[2], formula, inputs),), is_arithmetic=True)


def _named(said: Said) -> tuple[str, float, str]:
    known = said.kind in UNITS
    return said.kind if known else "factor", said.value, UNITS[said.kind][1] if known else "1"


def _written(text: str, numbers: Sequence[Said]) -> list[str]:
    """The sentence as operators, parentheses around numbers, and places of numbers; "|" for anything between."""
    whole, at = "", 0
    for place, each in enumerate(numbers):
        sign = " × " if each.text[-1:] in "x×*·" else ""
        equals = "=" if each.text[:1] in "≤≥<>" else ""
        whole, at = f"{whole}{text[at : each.at]}{equals}#{place}#{sign}", each.at + len(each.text)
    found = [each.lastgroup or each for each in _PATTERN.finditer(whole + text[at:])]
    return [
        each[0].strip("#") if each[0].startswith("#") else _TOKENS[(each.lastindex or 1) - 1][0]
        for each in found if not isinstance(each, str)
    ]  # fmt: skip


def _sides(tokens: Sequence[str]) -> tuple[list[str], str] | None:
    """The row of operators before the only "=" that has one, and the number after it."""
    ends = [
        at
        for at, each in enumerate(tokens)
        if each == "=" and at > 2 and (tokens[at - 2] in "*/+-" or tokens[at - 1] == ")")
    ]
    if len(ends) != 1 or ends[0] + 1 >= len(tokens) or not tokens[ends[0] + 1].isdigit():
        return None
    end = ends[0]
    rest = tokens[end + 2 :]
    if rest and rest[0] in ("*", "/", "+", "-", "="):
        return None
    first = end
    while first and tokens[first - 1] != "=" and not (tokens[first - 1].isdigit() and tokens[first].isdigit()):
        first -= 1
    return list(tokens[first:end]), tokens[end + 1]


def _sum(tokens: list[str], numbers: Sequence[Said]) -> Worked | None:
    found = _product(tokens, numbers)
    while found is not None and tokens and tokens[0] in "+-":
        sign = 1 if tokens.pop(0) == "+" else -1
        other = _product(tokens, numbers)
        if other is None:
            return None
        agrees = found.unit is not None and other.unit is not None and _same(found.unit, other.unit)
        found = Worked(found.value + sign * other.value, found.written + sign * other.written,
                       found.unit if agrees else None)  # fmt: skip
    return found if not tokens or tokens[0] == ")" else None


def _product(tokens: list[str], numbers: Sequence[Said]) -> Worked | None:
    found = _one(tokens, numbers)
    while found is not None and tokens and tokens[0] in "*/":
        sign = 1 if tokens.pop(0) == "*" else -1
        other = _one(tokens, numbers)
        if other is None:
            return None
        unit = None
        if found.unit is not None and other.unit is not None:
            unit = Counter({name: found.unit[name] + sign * other.unit[name] for name in {*found.unit, *other.unit}})
        found = Worked(found.value * other.value**sign, found.written * other.written**sign, unit)
    return found


def _one(tokens: list[str], numbers: Sequence[Said]) -> Worked | None:
    token = tokens.pop(0) if tokens else ""
    if token == "(":
        found = _sum(tokens, numbers)
        return found if tokens and tokens.pop(0) == ")" else None
    return _of(numbers[int(token)]) if token.isdigit() else None


def _of(said: Said) -> Worked:
    """One number; without a unit it fits only where a result comes out right."""
    digits = re.search(r"\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+", said.text)
    unit = exponents(UNITS[said.kind][0]) if said.kind in UNITS else Counter() if said.kind in _BARE else None
    return Worked(base(said), float(digits[0].replace(",", "")) if digits else said.value, unit)


def _same(one: Exponents, other: Exponents) -> bool:
    counts = (*_COUNTS, "token") if one["B"] and other["B"] else _COUNTS  # "1,000 tokens × 128 KiB"
    return all(one[name] == other[name] for name in {*one, *other} if name not in counts)
