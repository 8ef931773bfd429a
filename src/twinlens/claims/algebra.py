"""Claims that units alone decide: every number of the sentence, multiplied or divided once, in the one way that fits.

"700 W at 3,500 tok/s is 0.2 J per token" needs no law: W / (tokens/s) is the only product of the three that has no unit
left. Where two ways fit, or a number is left, nothing is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

from twinlens.claims.answer import Answer, Case, Term
from twinlens.claims.said import Said, View
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
            terms.append((-own * sign, Term(each.kind, each.value, UNITS[each.kind][1])))
    view.used.update(view.claim.said)
    view.says("training", "decode", "energy", "tpot", "each", "per-token", "hour", "kv", "amortised", "prefill")
    terms.sort(key=lambda term: -term[0])
    above = [f"{{{place}}}" for place, (sign, _) in enumerate(terms) if sign > 0]
    below = [f"{{{place}}}" for place, (sign, _) in enumerate(terms) if sign < 0]
    formula = " / ".join([" × ".join(above) or "1", *below])
    cases = [Case(value, tuple(term for _, term in terms), formula)]
    kinds = {each.kind for each in distinct}
    many = next(((term.value, sign) for sign, term in terms if term.name == "devices"), None)
    if many and any(each.kind in _PER_DEVICE and not each.per for each in distinct):
        whole = value / many[0] ** many[1]
        cases.append(Case(whole, (Term(claimed.kind, whole, UNITS[claimed.kind][1]),), "{0}", "of-all"))
    is_stream = claimed.kind == "rate" and "token_time" in kinds
    quantity = "stream-rate" if is_stream else FIGURES.get(claimed.kind, "arithmetic")
    return Answer(quantity, UNITS[claimed.kind][1], claimed, tuple(cases), is_arithmetic=True)


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
