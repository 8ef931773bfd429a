"""Claims that write their own arithmetic: "1,024 sequences × 4,096 tokens = 4.2M", "300 ms + 200 × 20 ms = 4.3 s".

It is worked out as it is written. Where the units agree, the result decides; where they do not (a number without a
unit, a price "per kWh" left out), only a result that comes out right does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from twinlens.claims.algebra import FIGURES, UNITS, Exponents, base, exponents
from twinlens.claims.answer import Answer, Case, Term
from twinlens.claims.said import Said, View

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
    case = Case(shown, tuple(Term(*_named(each)) for each in terms), formula)
    return Answer(FIGURES.get(claimed.kind, "arithmetic"), _named(claimed)[2], claimed, (case,), is_arithmetic=True)


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
