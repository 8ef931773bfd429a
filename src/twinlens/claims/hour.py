"""Claims on an hour of a machine of one's own: what it costs, and when the machine has paid for itself.

Power, its price and fixed costs that a claim does not say are not 0: without them an answer is a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twinlens.claims.answer import Answer, Case, Gap, Term, lacking, solved
from twinlens.claims.said import Claim, Said, part_of_whole
from twinlens.record.finding import Finding

_HOUR_S = 3600.0
_MONTH_H = 730.0  # 365 × 24 / 12


@dataclass(frozen=True, slots=True)
class Running:
    """Cost of an hour beside the price: what is said of it, and what is not said and so may only add to it."""

    per_hour: float
    missing: tuple[str, ...]
    is_bound: bool
    """Whether it is the least that an hour may cost: not even power is said."""


def _running(claim: Claim, hours_a_month: float | None) -> Running:
    power, kwh, fixed = claim.value("power"), claim.value("price_kwh"), claim.value("cost_month")
    needed = {"power": power, "price-per-kwh": kwh, "fixed-costs": fixed}
    energy = power / 1000 * kwh if power is not None and kwh is not None else 0.0
    each = fixed / hours_a_month if fixed is not None and hours_a_month else 0.0
    return Running(energy + each, lacking(needed), power is None or kwh is None)


def break_even(claim: Claim) -> Answer | Gap | None:
    """ "A $37500 GPU pays for itself in 6-14 months at 8 h a day against $3/h": price over what an hour saves."""
    claimed = claim.one("time") if "break-even" in claim.topics else None
    if claimed is None:
        return None
    price, rented, daily = claim.value("money"), claim.value("price_hour"), claim.value("hours_day")
    if price is None or rented is None or daily is None:
        return Gap("break-even", lacking({"money": price, "price-per-hour": rented, "hours-per-day": daily}))
    hours = daily * _MONTH_H / 24
    own = _running(claim, hours)
    if rented <= own.per_hour:
        return Gap("break-even", ("saving",))
    saved = Term("own-per-hour", own.per_hour, "$/h")
    terms = [Term("money", price, "$"), Term("price-per-hour", rented, "$/h"), Term("hours-per-month", hours, "h")]
    formula = "{0} / ({1} × {2})"
    if own.per_hour:
        terms, formula = [*terms[:2], saved, terms[2]], "{0} / (({1} − {2}) × {3})"
    month_s = _MONTH_H * _HOUR_S
    case = Case(price / ((rented - own.per_hour) * hours) * month_s, tuple(terms), formula)
    return Answer(
        "break-even", "s", claimed, (case,), bound="at-least" if own.is_bound else "same",
        missing=own.missing, solutions=tuple(_paid_in(claimed, price, hours, rented, own)),
        is_open=own.is_bound and claimed.range[1] >= case.value,
    )  # fmt: skip


def _paid_in(claimed: Said, price: float, hours: float, rented: float, own: Running) -> Iterator[Finding]:
    """The rented prices that the claim asks for, and what an own hour may cost beside the price of the machine."""
    month_s = _MONTH_H * _HOUR_S
    low, high = (price / (end / month_s) / hours for end in (claimed.high or 0.0, claimed.low or 0.0))
    yield solved(
        "break-even", "s", claimed.value, {"price_hour": low + own.per_hour, "price_hour_high": high + own.per_hour}
    )
    if rented > low and own.is_bound:
        yield solved("break-even", "s", claimed.value, {"own_hour": rented - low})


def useful_hour(claim: Claim) -> Answer | Gap | None:
    """ "An H100 costs $0.90-1.40 per useful hour at 70 % utilisation, $30k over 36 months": price over busy hours."""
    claimed = claim.one("price_useful")
    if claimed is None:
        return None
    price, life, busy = claim.value("money"), claim.value("time"), claim.value("share")
    part_of_whole(claim.one("share"))
    if price is None or life is None:
        return Gap("price-per-hour", lacking({"price-and-life": None, "utilisation": busy}))
    used, hours = busy or 1.0, life / _HOUR_S
    own = _running(claim, _MONTH_H * used)
    terms = [Term("money", price, "$"), Term("life", life, "s"), Term("utilisation", used, "share")]
    if own.per_hour:
        terms.append(Term("own-per-hour", own.per_hour, "$/h"))
    case = Case(price / hours / used + own.per_hour, tuple(terms), "{0} / ({1} × {2})" + " + {3}" * bool(own.per_hour))
    left = max(0.0, claimed.value - own.per_hour)
    solutions = [solved("price-per-hour", "$/h", claimed.value, {"money": left * hours * used})] if left else []
    if left and (share := price / hours / left) <= 1:
        solutions.append(solved("price-per-hour", "$/h", claimed.value, {"share": share}))
    is_least = own.is_bound or busy is None
    return Answer(
        "price-per-hour", "$/h", claimed, (case,), bound="at-least" if is_least else "same",
        missing=(*own.missing, *lacking({"utilisation": busy})), solutions=tuple(solutions),
        is_open=is_least and claimed.range[1] >= case.value,
    )  # fmt: skip
